"""Say what the live default would save the agent of these runs, and what other settings would.

Each run is replayed under every policy and budget with an agent that fetches again what it needs
and does not see. Of settings without the default, the cheapest that hides something needed in at
most 5% of the steps that use earlier results is advised; full history where less than 2% is saved.
"""

import argparse
from functools import partial

from contextrender_bridge.evaluation.advice import BUDGETS, POLICIES, recommend
from contextrender_bridge.evaluation.bootstrap import span
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.replay_command import add_what_to_replay
from contextrender_bridge.evaluation.runs import read_runs
from contextrender_bridge.evaluation.tables import Rows, console, percent
from contextrender_bridge.evaluation.workers import replay_runs
from contextrender_bridge.printing import add_json, print_json

COLUMNS = ("policy", "budget", "of the\nbill", "", "hides, % of\nsteps", "", "dollars\na run")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender recommend`."""
    add_what_to_replay(parser, POLICIES, BUDGETS)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Replays, and prints the verdict."""
    replay = partial(replay_runs, workers=args.workers, closed_loop=True)
    cases = cases_of(args.policy, args.budget)
    verdict = recommend(read_runs(args.files, args.limit), cases, replay)
    if args.json:
        return print_json(verdict.to_json())
    rows = [
        (
            *(option.case.name, option.case.size),
            *(percent(option.cost.value), span(option.cost)),
            *(percent(option.hidden.value), span(option.hidden)),
            f"{option.dollars:.3f}",
        )
        for option in verdict.options
    ]
    out = console()
    out.print(verdict.sentence, soft_wrap=True)
    out.print("", Rows("", COLUMNS, rows))
    return 0

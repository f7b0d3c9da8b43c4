"""Report what the default setting and others would save the agent of these runs.

Each run is replayed under every policy and budget, with an agent that fetches missing results
again. Settings qualify that save at least 2% of the cost and have a miss in at most 5% of the steps
that use earlier results. The default is recommended if it qualifies, otherwise the cheapest setting
that does, otherwise full history. The console recommends by the same rule.
"""

import argparse
from functools import partial

from contextrender_bridge.audit.transcripts import read_transcripts
from contextrender_bridge.cli.measure.replay import add_run_arguments
from contextrender_bridge.evaluation.advice import BUDGETS, POLICIES, recommend
from contextrender_bridge.evaluation.bootstrap import span
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.tables import Rows, console, percent_or_dash
from contextrender_bridge.evaluation.workers import replay_runs
from contextrender_bridge.printing import add_json, print_json

COLUMNS = ("policy", "budget", "share of\ncost", "", "steps with\na miss", "", "dollars\nper run")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender recommend`."""
    add_run_arguments(parser, POLICIES, BUDGETS)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Replay the runs, and print the verdict and a table with the costs and misses of each case."""
    replay = partial(replay_runs, workers=args.workers, closed_loop=True)
    cases = cases_of(args.policy, args.budget)
    verdict = recommend(read_transcripts(args.files, args.limit), cases, replay)
    if args.json:
        return print_json(verdict.to_json())
    # A cell for each of `COLUMNS`. The columns without a head have the intervals.
    rows = [
        (
            *(option.case.name, option.case.size),
            *(percent_or_dash(option.cost.value), span(option.cost)),
            *(percent_or_dash(option.miss_rate.value), span(option.miss_rate)),
            f"{option.dollars:.3f}",
        )
        for option in verdict.options
    ]
    out = console()
    out.print(verdict.sentence, soft_wrap=True)
    out.print("", Rows("", COLUMNS, rows))
    return 0

"""Say what the live default would save the agent of these runs, and what other settings would.

Each run is replayed under every policy and budget with an agent that fetches again what it needs
and does not see. Of settings without the default, the cheapest that hides something needed in at
most 5% of the steps that use earlier results is advised; full history where less than 2% is saved.
"""

import argparse
import json
from functools import partial

from evaluation.advice import BUDGETS, POLICIES, advise
from evaluation.bootstrap import span
from evaluation.cases import cases_of
from evaluation.prices import RulePrices
from evaluation.replay_command import add_what_to_replay
from evaluation.report import console, percent, table
from evaluation.runs import read_runs
from evaluation.verdict import Verdict
from evaluation.workers import replay_runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender advise`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_what_to_replay(parser, POLICIES, BUDGETS)
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")


def run(args: argparse.Namespace) -> int:
    """Replays, and prints the verdict."""
    cases = cases_of(args.policy, args.budget)
    prices = RulePrices.parsed(args.price)
    replay = partial(replay_runs, workers=args.workers, closed_loop=True)
    verdict = advise(read_runs(args.files, args.limit), cases, prices, replay)
    if args.json:
        print(json.dumps(verdict.to_json(), indent=1))
        return 0
    out = console()
    out.print(verdict.sentence, soft_wrap=True)
    _print_options(verdict)
    return 0


def _print_options(verdict: Verdict) -> None:
    made = table(
        "",
        *("policy", "budget", "of the\nbill", "", "hides, % of\nsteps", "", "dollars\na run"),
        folds="policy",
    )
    for option in verdict.options:
        made.add_row(
            option.case.name,
            option.case.size,
            percent(option.cost.value),
            span(option.cost),
            percent(option.hidden.value),
            span(option.hidden),
            f"{option.dollars:.3f}",
        )
    console().print("", made)

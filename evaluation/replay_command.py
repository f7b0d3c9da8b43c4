"""Measure policies on recorded runs: what they send, and how much of what later steps used.

A run is a line of JSON, {"id", "source", "model", "messages"}, with OpenAI chat messages. Before
each assistant message the history is rendered as it would have been for that model call. Tokens
are those the budget limits; the system prompt and the current user message come on top, and are
`tokens_outside` in the JSON. docs/evaluation.md defines every figure.

A policy may have parameters or a budget of its own, as in
`--policy prune,contextrender:weight_reuse=2,contextrender@12000`.
"""

import argparse
import shlex
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_install

from engine.call.settings import DEFAULT_BUDGET
from evaluation import export, report
from evaluation.bootstrap import Bootstrap, differences, pairs_of
from evaluation.cases import cases_of
from evaluation.compactions import measure_runs
from evaluation.prices import DEFAULTS, RulePrices, rule_of
from evaluation.runs import read_runs
from evaluation.score_cache import ScoreCache
from evaluation.verdict import lengths_of, verdict_on
from evaluation.workers import replay_runs

COMPARED = "contextrender,prune,full"

__all__ = ["add_arguments", "cases_of", "count", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender replay`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_replay_arguments(parser, COMPARED, str(DEFAULT_BUDGET))
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures, per run too")
    parser.add_argument(
        "--csv", type=Path, metavar="OUT", help="write the figures, one line a case"
    )
    parser.add_argument("--report", type=Path, metavar="OUT", help="write all of it as one page")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="keep scores there, and reuse those kept before"
    )


def add_what_to_replay(parser: argparse.ArgumentParser, policies: str, budgets: str) -> None:
    """The options that say what to replay, and at what prices."""
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help=".jsonl, .jsonl.gz, or a folder of them"
    )
    parser.add_argument("--policy", default=policies, metavar="A,B", help="policies (%(default)s)")
    parser.add_argument("--budget", default=budgets, metavar="N,M", help="tokens (%(default)s)")
    parser.add_argument("--limit", type=count, metavar="N", help="replay the first N runs only")
    parser.add_argument(
        "--price",
        action="append",
        default=[],
        metavar="MODEL",
        help="whose prices bills take, in LiteLLM's table (each run's own model's, else "
        f"{' and '.join(DEFAULTS.values())}), or as openai:input=2,cached=0.5,output=8, dollars "
        "for a million tokens; one for each provider",
    )
    parser.add_argument("--workers", type=count, metavar="N", help="processes (one a processor)")


def add_replay_arguments(parser: argparse.ArgumentParser, policies: str, budgets: str) -> None:
    """The options that say what to replay, and what to make of it."""
    add_what_to_replay(parser, policies, budgets)
    parser.add_argument(
        "--compare",
        nargs=2,
        action="append",
        default=[],
        metavar=("A", "B"),
        help="paired differences of two policies, as policy or policy@budget; repeatable",
    )
    parser.add_argument(
        "--closed-loop",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="also replay with an agent that fetches again what it needs and does not see",
    )


def run(args: argparse.Namespace) -> int:
    """Replays the files, prints the tables and writes what was asked for."""
    if args.report:
        needs_plots()
    cases = cases_of(args.policy, args.budget)
    budgets = list(dict.fromkeys(case.budget for case in cases))
    pairs = pairs_of(args.compare, budgets)
    cases = list(dict.fromkeys([*cases, *(case for pair in pairs for case in pair)]))
    prices = RulePrices.parsed(args.price)
    runs = read_runs(args.files, args.limit)
    loop: bool = args.closed_loop
    kept = ScoreCache(args.resume, closed_loop=loop) if args.resume else None
    scores = replay_runs(runs, cases, args.workers, kept=kept, closed_loop=loop)
    bootstrap = Bootstrap(scores, prices=prices)
    compared = list(differences(bootstrap, cases, pairs))
    rule = rule_of(run.model for run in runs)
    known = [(case, bootstrap.estimates(index)) for index, case in enumerate(cases)]
    verdict = verdict_on(known, rule, bootstrap.tasks, lengths_of(scores, rule, prices))
    lost = measure_runs(runs, args.workers) if any(run.continues for run in runs) else None
    if args.json:
        told = export.to_json(scores, bootstrap, compared)
        told["compactions"] = lost.to_json() if lost else None
        export.write_json(told, args.json)
    if args.csv:
        export.write(export.to_csv(scores, bootstrap), args.csv)
    if args.report:
        from evaluation.page import page
        from evaluation.plots import Plotter

        plots = Plotter(scores, bootstrap, rule).all()
        command = f"{args.words[0]} {shlex.join(args.words[1:])}"
        export.write(page(scores, bootstrap, compared, plots, command, verdict), args.report)
    out = report.console()
    out.print(*report.tables(scores, bootstrap, compared), sep="\n")
    if lost is not None:
        out.print(report.compaction_table(lost))
    out.print(report.notes(scores, bootstrap))
    return 0


def count(text: str) -> int:
    """A number of things, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def needs_plots() -> None:
    """Raises CommandError when the plotting library is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise CommandError(f"plots need matplotlib: {how_to_install('eval')}.") from None

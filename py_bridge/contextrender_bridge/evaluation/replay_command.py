"""Measure policies on recorded runs: what they send, and how much of what later steps used.

A run is a line of JSON, {"id", "source", "model", "messages"}, with OpenAI chat messages. Before
each assistant message the history is rendered as it would have been for that model call. Tokens
are those the budget limits; the system prompt and the current user message come on top, and are
`tokens_outside` in the JSON. docs/evaluation.md defines every figure.

A policy may have parameters or a budget of its own, as in
`--policy prune,contextrender:weight_reuse=2,contextrender@12000`.
"""

import argparse
import json
from pathlib import Path

from contextrender_bridge.base.worth import rule_of
from contextrender_bridge.engine.call.settings import DEFAULT_BUDGET
from contextrender_bridge.evaluation import export
from contextrender_bridge.evaluation.bootstrap import Bootstrap, differences, pairs_of
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.compactions import measure_runs
from contextrender_bridge.evaluation.report import Report
from contextrender_bridge.evaluation.runs import read_runs
from contextrender_bridge.evaluation.tables import console
from contextrender_bridge.evaluation.verdict import lengths_of, verdict_on
from contextrender_bridge.evaluation.workers import replay_runs

COMPARED = "contextrender,prune,full"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender replay`."""
    add_replay_arguments(parser, COMPARED, str(DEFAULT_BUDGET))
    parser.add_argument(
        "--closed-loop",
        action="store_true",
        help="also replay with an agent that fetches again what it needs and does not see",
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures, per run too")


def add_what_to_replay(parser: argparse.ArgumentParser, policies: str, budgets: str) -> None:
    """The options that say what to replay."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help=".jsonl, .jsonl.gz, or a folder of them"
    )
    parser.add_argument("--policy", default=policies, metavar="A,B", help="policies (%(default)s)")
    parser.add_argument("--budget", default=budgets, metavar="N,M", help="tokens (%(default)s)")
    parser.add_argument("--limit", type=count, metavar="N", help="replay the first N runs only")
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


def run(args: argparse.Namespace) -> int:
    """Replays the files, prints the tables and writes what was asked for."""
    replayed(args)
    return 0


def replayed(args: argparse.Namespace) -> Report:
    """Does so, and gives what came of it."""
    cases = cases_of(args.policy, args.budget)
    pairs = pairs_of(args.compare, list(dict.fromkeys(case.budget for case in cases)))
    cases = list(dict.fromkeys([*cases, *(case for pair in pairs for case in pair)]))
    runs = read_runs(args.files, args.limit)
    scores = replay_runs(runs, cases, args.workers, closed_loop=args.closed_loop)
    bootstrap = Bootstrap(scores)
    rule = rule_of(run.model for run in runs)
    known = [(case, bootstrap.estimates(index)) for index, case in enumerate(cases)]
    verdict = verdict_on(known, rule, bootstrap.tasks, lengths_of(scores, rule))
    lost = measure_runs(runs, args.workers) if any(run.continues for run in runs) else None
    report = Report(scores, bootstrap, [*differences(bootstrap, cases, pairs)], verdict, lost)
    if args.json:
        told = export.to_json(scores, bootstrap, report.compared)
        told["compactions"] = lost.to_json() if lost else None
        export.write(json.dumps(told, indent=1) + "\n", args.json)
    console().print(*report.tables, *report.notes, sep="\n", markup=False)
    return report


def count(text: str) -> int:
    """A number of things, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number

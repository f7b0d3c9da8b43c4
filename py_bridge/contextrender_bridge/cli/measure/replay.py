"""Measure what policies send of recorded runs, and how much of it later steps used.

A run is a line of JSON, {"id", "source", "model", "messages"}, with OpenAI chat messages. Agents'
sessions and request logs are read, too, as `contextrender audit` reads them. The history before
each assistant message is rendered as for that model call. Token counts do not include the system
prompt and the current user message, which the budget does not limit; those are `tokens_unbudgeted`
in the JSON. docs/evaluation.md defines every figure.

A policy may have parameters or a budget of its own, as in
`--policy prune,contextrender:weight_reuse=2,contextrender@12000`.
"""

import argparse
import json
from itertools import chain
from pathlib import Path

from contextrender_bridge.audit.transcripts import read_transcripts
from contextrender_bridge.engine.call.settings import DEFAULT_BUDGET
from contextrender_bridge.evaluation.bootstrap import Bootstrap, differences, pairs_of
from contextrender_bridge.evaluation.cases import cases_of
from contextrender_bridge.evaluation.compactions import measure_sample
from contextrender_bridge.evaluation.report import Report
from contextrender_bridge.evaluation.runs import compactions_of
from contextrender_bridge.evaluation.tables import console
from contextrender_bridge.evaluation.workers import replay_runs
from contextrender_bridge.printing import add_count, write_file

DEFAULT_POLICIES = "contextrender,prune,full"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender replay`."""
    add_replay_arguments(parser, DEFAULT_POLICIES, str(DEFAULT_BUDGET))
    parser.add_argument(
        "--closed-loop",
        action="store_true",
        help="also replay with an agent that fetches missing results again",
    )
    parser.add_argument(
        "--json", type=Path, metavar="OUT", help="write the figures, also per run, to OUT"
    )


def add_run_arguments(parser: argparse.ArgumentParser, policies: str, budgets: str) -> None:
    """Add the options that select runs, policies and budgets.

    `policies` and `budgets` are the defaults, as comma-separated lists.
    """
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="runs (.jsonl, .jsonl.gz), or what `contextrender audit` reads",
    )
    parser.add_argument("--policy", default=policies, metavar="A,B", help="policies (%(default)s)")
    parser.add_argument(
        "--budget", default=budgets, metavar="N,M", help="budgets in tokens (%(default)s)"
    )
    add_count(parser, "--limit", "replay the first N runs only")
    add_count(parser, "--workers", "processes (one a processor)")


def add_replay_arguments(parser: argparse.ArgumentParser, policies: str, budgets: str) -> None:
    """Add the options that select runs, policies and budgets, and the pairs to compare.

    `policies` and `budgets` are the defaults, as comma-separated lists.
    """
    add_run_arguments(parser, policies, budgets)
    parser.add_argument(
        "--compare",
        nargs=2,
        action="append",
        default=[],
        metavar=("A", "B"),
        help="print paired differences of two policies, each policy or policy@budget (repeatable)",
    )


def run(args: argparse.Namespace) -> int:
    """Replay the runs, print the tables, and write the figures if --json is given."""
    replay_and_print(args)
    return 0


def replay_and_print(args: argparse.Namespace) -> Report:
    """Replay the runs, print the tables, write the figures for --json, and return the report.

    --policy and --budget name the cases, and --compare may add others. If agents compacted some of
    the runs, also measure what these compactions lost.
    """
    # The cases to replay, each once.
    requested_cases = cases_of(args.policy, args.budget)
    budgets = list(dict.fromkeys(case.budget for case in requested_cases))
    pairs = pairs_of(args.compare, budgets)
    cases = list(dict.fromkeys([*requested_cases, *chain.from_iterable(pairs)]))
    runs = read_transcripts(args.files, args.limit)
    scores = replay_runs(runs, cases, args.workers, closed_loop=args.closed_loop)
    bootstrap = Bootstrap(scores)

    has_compactions = any(run.continues for run in runs)
    compaction_score = (
        measure_sample(compactions_of(runs), args.workers) if has_compactions else None
    )
    report = Report(bootstrap, [*differences(bootstrap, pairs)], compaction_score)
    # Write the figures, and print the tables.
    if args.json:
        write_file(json.dumps(report.to_json(), indent=1) + "\n", args.json)
    console().print(*report.tables, *report.notes, sep="\n", markup=False)
    return report

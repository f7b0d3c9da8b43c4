"""Measure policies on recorded runs: what they send, and how much of what later steps drew on.

A run is a line of JSON, {"id", "source", "model", "messages"}, with OpenAI chat messages. Before
each assistant message the history is rendered as it would have been for that model call.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from contextrender_bridge.client import ContextRender
from contextrender_bridge.credentials import NoCredentials
from contextrender_bridge.errors import CommandError
from contextrender_bridge.replay import report
from contextrender_bridge.replay.over_http import HttpReplay
from contextrender_bridge.replay.progress import progress
from contextrender_bridge.replay.runs import Run, read_runs
from contextrender_bridge.replay.scores import Case, RunScore
from contextrender_bridge.replay.service import temporary_service
from contextrender_bridge.replay.workers import Advance, replay_runs
from engine.errors import InvalidRequest
from engine.parameters import check_budget
from engine.policies import policy_named
from engine.request import DEFAULT_BUDGET

COMPARED = "contextrender,prune,full"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender replay`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help=".jsonl, .jsonl.gz, or a folder of them"
    )
    parser.add_argument("--policy", default=COMPARED, metavar="A,B", help="policies (%(default)s)")
    parser.add_argument(
        "--budget", default=str(DEFAULT_BUDGET), metavar="N,M", help="tokens (%(default)s)"
    )
    parser.add_argument("--limit", type=count, metavar="N", help="replay the first N runs only")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures, per run too")
    parser.add_argument(
        "--http",
        action="store_true",
        help="through a server: CONTEXTRENDER_URL's, else one started for the purpose",
    )
    parser.add_argument(
        "--workers", type=count, metavar="N", help="processes, without --http (one a processor)"
    )


def run(args: argparse.Namespace) -> int:
    """Replays the files and prints the tables."""
    cases = cases_of(args.policy, args.budget)
    runs = read_runs(args.files, args.limit)
    total = sum(run.invocations for run in runs) * len(cases)
    if args.http:
        with service() as client, progress("Replaying model calls", total) as advance:
            scores = _through(client, runs, cases, advance)
    else:
        with progress("Replaying model calls", total) as advance:
            scores = replay_runs(runs, cases, args.workers, advance)
    if args.json:
        report.write_json(scores, args.json)
    out = report.console()
    out.print(*report.tables(scores), sep="\n")
    out.print(report.notes(scores))
    return 0


def cases_of(policies: str, budgets: str) -> list[Case]:
    """Every policy under every budget. Raises CommandError for one there is not."""
    try:
        named = _names(policies)
        for policy in named:
            policy_named(policy)
        sizes = [check_budget(int(budget)) for budget in _names(budgets)]
    except InvalidRequest as problem:
        raise CommandError(f"{problem.message}.") from None
    except ValueError:
        raise CommandError("--budget takes whole numbers of tokens, as in 6000,12000.") from None
    if not (named and sizes):
        raise CommandError("name at least one policy and one budget.")
    return [Case(policy, budget) for policy in named for budget in sizes]


def count(text: str) -> int:
    """A number of things, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


@contextmanager
def service() -> Iterator[ContextRender]:
    """A client of the server that CONTEXTRENDER_URL names, else of one for this block only."""
    if os.environ.get("CONTEXTRENDER_URL"):
        try:
            client = ContextRender()
        except NoCredentials as error:
            raise CommandError(str(error)) from None
        with client:
            yield client
        return
    with temporary_service() as own, ContextRender(own.url, own.token) as client:
        yield client


def _through(
    client: ContextRender, runs: Sequence[Run], cases: Sequence[Case], advance: Advance
) -> list[RunScore]:
    replay = HttpReplay(client)
    scores = []
    for run in runs:
        try:
            scores.append(replay.replay_run(run, cases, lambda *_: advance(1)))
        finally:
            replay.forget()
    return scores


def _names(text: str) -> list[str]:
    """The parts of a comma-separated list, each once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from contextrender_bridge.base.errors import CommandError, NoCredentials
from contextrender_bridge.base.installing import how_to_install
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.client import ContextRender
from contextrender_bridge.local_service import temporary_service

from engine.call.request import DEFAULT_BUDGET
from engine.models.summaries import MODEL_POLICIES
from evaluation import export, report
from evaluation.bootstrap import RESAMPLES, Bootstrap
from evaluation.cache import ScoreCache
from evaluation.cases import Case, cases_of
from evaluation.compactions import measure_runs
from evaluation.compare import differences, pairs_of
from evaluation.over_http import HttpReplay
from evaluation.prices import DEFAULTS, RulePrices, rule_of
from evaluation.progress import progress
from evaluation.runs import Run, read_runs
from evaluation.scores import RunScore
from evaluation.verdict import lengths_of, verdict_on
from evaluation.workers import Advance, replay_runs

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
    parser.add_argument("--plot", type=Path, metavar="DIR", help="write plots, as PNG and SVG")
    parser.add_argument("--report", type=Path, metavar="OUT", help="write all of it as one page")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="keep scores there, and reuse those kept before"
    )
    parser.add_argument(
        "--http",
        action="store_true",
        help="through a server: CONTEXTRENDER_URL's, else a new one",
    )


def add_what_to_replay(parser: argparse.ArgumentParser, policies: str, budgets: str) -> None:
    """The options that say what to replay, and at what prices."""
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help=".jsonl, .jsonl.gz, or a folder of them"
    )
    parser.add_argument("--policy", default=policies, metavar="A,B", help="policies (%(default)s)")
    parser.add_argument("--budget", default=budgets, metavar="N,M", help="tokens (%(default)s)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a parameter of every policy; repeatable",
    )
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
    parser.add_argument(
        "--workers", type=count, metavar="N", help="processes, without --http (one a processor)"
    )


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
        "--resamples",
        type=count,
        default=RESAMPLES,
        metavar="N",
        help="resamplings for the intervals (%(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the resampling (0)"
    )
    parser.add_argument(
        "--closed-loop",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="also replay with an agent that fetches again what it needs and does not see",
    )


def run(args: argparse.Namespace) -> int:
    """Replays the files, prints the tables and writes what was asked for."""
    if args.http and args.resume:
        raise CommandError("--resume keeps scores of replays in process, not of --http.")
    if args.http and args.closed_loop:
        raise CommandError("--closed-loop replays in process, not through --http.")
    if args.plot or args.report:
        needs_plots()
    cases = cases_of(args.policy, args.budget, args.set)
    budgets = list(dict.fromkeys(case.budget for case in cases))
    pairs = pairs_of(args.compare, budgets, args.set)
    cases = list(dict.fromkeys([*cases, *(case for pair in pairs for case in pair)]))
    prices = RulePrices.parsed(args.price)
    runs = read_runs(args.files, args.limit)
    scores = _scores(args, runs, cases)
    bootstrap = Bootstrap(scores, args.resamples, args.seed, prices)
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
    if args.plot or args.report:
        from evaluation.page import page
        from evaluation.plots import Plotter, write_plots

        plots = Plotter(scores, bootstrap, rule).all()
        if args.plot:
            write_plots(plots, args.plot)
        if args.report:
            command = f"{args.words[0]} {shlex.join(args.words[1:])}"
            export.write(page(scores, bootstrap, compared, plots, command, verdict), args.report)
    out = report.console()
    out.print(*report.tables(scores, bootstrap, compared), sep="\n")
    if lost is not None:
        out.print(report.compaction_table(lost))
    out.print(report.notes(scores, bootstrap, args.http))
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


@contextmanager
def service(*, model: bool = False) -> Iterator[ContextRender]:
    """A client of the server that CONTEXTRENDER_URL names, else of one for this block only.

    That one may use a `model` if a policy needs it.
    """
    if current_settings().url:
        try:
            client = ContextRender()
        except NoCredentials as error:
            raise CommandError(str(error)) from None
        with client:
            yield client
        return
    with temporary_service(model=model) as own, ContextRender(own.url, own.token) as client:
        yield client


def _scores(args: argparse.Namespace, runs: Sequence[Run], cases: Sequence[Case]) -> list[RunScore]:
    total = sum(run.invocations for run in runs) * len(cases)
    if args.http:
        model = any(case.policy in MODEL_POLICIES for case in cases)
        with service(model=model) as client, progress("Replaying model calls", total) as advance:
            return _through(client, runs, cases, advance)
    loop: bool = args.closed_loop
    kept = ScoreCache(args.resume, closed_loop=loop) if args.resume else None
    with progress("Replaying model calls", total) as advance:
        return replay_runs(runs, cases, args.workers, advance, kept, closed_loop=loop)


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

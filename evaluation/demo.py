"""Start the service, replay recorded agent runs through it one model call at a time, and show
what each policy sent, how much of what later steps drew on was in view, and one call explained.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import contextrender_bridge
from contextrender_bridge.client import ContextRender
from contextrender_bridge.server.temporary import temporary_service
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engine.call.request import DEFAULT_BUDGET
from evaluation.cases import Case
from evaluation.command import cases_of, count
from evaluation.explained import Telling, print_explanation
from evaluation.over_http import HttpReplay
from evaluation.progress import progress
from evaluation.report import console, percent, table
from evaluation.runs import Run, read_runs
from evaluation.scores import CaseScore, Prompt, RunScore, Turn, totals

SHIPPED = Path(contextrender_bridge.__file__).parent / "data" / "demo.jsonl"
POLICIES = "contextrender,prune,full"
FEW_RUNS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender demo`."""
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="runs as .jsonl or .jsonl.gz (one is shipped)"
    )
    parser.add_argument("--traces", metavar="FILE", help="the same")
    parser.add_argument(
        "--limit", type=count, default=FEW_RUNS, metavar="N", help="the first N runs (%(default)s)"
    )
    parser.add_argument(
        "--budget", type=count, default=DEFAULT_BUDGET, metavar="N", help="tokens (%(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Replays the runs over HTTP and prints what came of it."""
    cases = cases_of(POLICIES, str(args.budget))
    source = Path(args.traces or args.file or SHIPPED)
    found = read_runs([source], args.limit + 1)
    runs = found[: args.limit]
    out = console()
    out.print("Starting the service ...")
    with temporary_service() as own, ContextRender(own.url, own.token) as client:
        out.print(f"Ready at {own.url}. Replaying {_plural(len(runs), 'run')} through it.\n")
        replay = HttpReplay(client)
        telling = Telling(cases[0], cases[1])
        scores = _replay(replay, runs, cases, telling)
        _print_scores(out, scores)
        if len(found) > len(runs):
            out.print(f"The first {args.limit} runs of {source}; --limit N takes more.\n")
        if telling.turn is not None:
            told = scores[telling.run]
            view = client.explain(
                told.sessions[0],
                turn=telling.turn.number,
                budget=cases[0].budget,
                policy=cases[0].policy,
            )
            drawn_on = {event.position for event in telling.turn.events}
            print_explanation(out, told.id, view, drawn_on)
    return 0


def _replay(
    replay: HttpReplay, runs: Sequence[Run], cases: Sequence[Case], telling: Telling
) -> list[RunScore]:
    total = sum(run.invocations for run in runs) * len(cases)
    scores: list[RunScore] = []
    with progress("Replaying model calls", total) as advance:
        for run in runs:
            telling.begin(len(scores))

            def watch(case: Case, turn: Turn, prompt: Prompt) -> None:
                telling.watch(case, turn, prompt)
                advance(1)

            scores.append(replay.replay_run(run, cases, watch))
    return scores


def _print_scores(out: Console, scores: Sequence[RunScore]) -> None:
    made = table(
        "",
        *("run", "calls", "tokens\nbefore", "tokens\nafter", "saved"),
        *("result\nrecall", "value\nrecall", "events"),
        folds="run",
    )
    for run in scores:
        _add_rows(made, run.id, run.cases)
    if len(scores) > 1:
        _add_rows(made, f"all {len(scores)}", totals(scores))
    out.print(made)
    out.print(
        "Tokens are summed over all calls. Recall is the share of what each call drew on\n"
        "that was in view: of the results, complete, and of their values, anywhere.\n"
    )


def _add_rows(made: Table, name: str, cases: Sequence[CaseScore]) -> None:
    made.add_row(escape(name), style="bold")
    for index, score in enumerate(cases):
        recall = score.recall
        made.add_row(
            f"  {score.case.policy}",
            f"{recall.invocations:,}",
            f"{recall.tokens_full:,}",
            f"{recall.tokens_rendered:,}",
            percent(score.share_saved),
            percent(recall.result_recall),
            percent(recall.value_recall),
            f"{recall.events:,}",
            end_section=index == len(cases) - 1,
        )


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

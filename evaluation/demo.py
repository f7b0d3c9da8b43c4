"""Start the service, replay recorded agent runs through it one model call at a time, and show
what each policy sent, what that costs under a provider's prompt cache, how much of what later steps
drew on was in view, and one call explained.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import contextrender_bridge
from contextrender_bridge.client import ContextRender
from contextrender_bridge.server.temporary import temporary_service
from contextrender_bridge.setting_kinds import LIVE_BUDGET, LIVE_POLICY
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engine.call.request import DEFAULT_BUDGET
from evaluation.bootstrap import Bootstrap, Estimate
from evaluation.cases import Case
from evaluation.command import cases_of, count
from evaluation.explained import Telling, print_explanation
from evaluation.over_http import HttpReplay
from evaluation.progress import progress
from evaluation.report import console, percent, table
from evaluation.runs import Run, read_runs
from evaluation.scores import CaseScore, Prompt, RunScore, Turn, totals

SHIPPED = Path(contextrender_bridge.__file__).parent / "data" / "demo.jsonl"
PAPER, LIVE, BASELINE, FULL = "contextrender", LIVE_POLICY, "prune", "full"
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
        "--budget",
        type=count,
        default=DEFAULT_BUDGET,
        metavar="N",
        help=f"tokens, of all policies but {LIVE} (%(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Replays the runs over HTTP and prints what came of it."""
    policies = f"{PAPER},{LIVE}@{LIVE_BUDGET},{BASELINE},{FULL}"
    cases = cases_of(policies, str(args.budget))
    source = Path(args.traces or args.file or SHIPPED)
    found = read_runs([source], args.limit + 1)
    runs = found[: args.limit]
    out = console()
    out.print("Starting the service ...")
    with temporary_service() as own, ContextRender(own.url, own.token) as client:
        out.print(f"Ready at {own.url}. Replaying {_plural(len(runs), 'run')} through it.\n")
        replay = HttpReplay(client)
        telling = Telling(cases[0], cases[2])
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
        *("run", "budget", "tokens\nsaved", "OpenAI's\nbill", "Anthropic's\nbill"),
        *("result\nrecall", "value\nrecall", "steps\nwith all"),
        folds="run",
    )
    for run in scores:
        _add_rows(made, run.id, [run])
    if len(scores) > 1:
        _add_rows(made, f"all {len(scores)}", scores)
    out.print(made)
    out.print(
        "Bills are of prompts, with the provider's prompt cache, in % of full history's. Recall\n"
        "is the share of what each call drew on that was in view: of the results, complete, and\n"
        "of their values, anywhere; steps with all had every value they drew on.\n"
    )
    out.print(*told(totals(scores), _estimates(scores)), sep="\n", end="\n\n")


def _estimates(scores: Sequence[RunScore]) -> list[dict[str, Estimate]]:
    bootstrap = Bootstrap(scores, 1)
    return [bootstrap.estimates(index) for index in range(len(scores[0].cases))]


def _add_rows(made: Table, name: str, scores: Sequence[RunScore]) -> None:
    sums = totals(scores)
    recall = sums[0].recall
    made.add_row(f"{escape(name)}: {recall.invocations:,} calls", style="bold")
    made.add_row(f"  {recall.tokens_full:,} tokens of history", style="bold")
    for index, (score, known) in enumerate(zip(sums, _estimates(scores), strict=True)):
        made.add_row(
            f"  {score.case.policy}",
            f"{score.case.budget:,}" if score.case.policy != FULL else "-",
            percent(score.share_saved),
            *(percent(known[name].value) for name in SHOWN),
            end_section=index == len(sums) - 1,
        )


SHOWN = (
    "openai_prompts",
    "anthropic_prompts",
    "result_recall",
    "value_recall",
    "turns_with_all_values",
)


def told(sums: Sequence[CaseScore], known: Sequence[Mapping[str, Estimate]]) -> list[str]:
    """What the figures of the paper's policy, the live one and the baseline come to, in words."""
    paper, live, baseline = (
        {name: percent(each[name].value) for name in SHOWN} for each in known[:3]
    )
    lines = [
        f"{sums[0].case} is the paper's policy and the API's default. It sent "
        f"{percent(sums[0].share_saved)} fewer tokens, for\n{paper['openai_prompts']} of the bill "
        f"with OpenAI's cache and {paper['anthropic_prompts']} with Anthropic's: it selects anew "
        "at every\ncall, and what changes is not read from the cache.",
        f"{sums[1].case} is for live agents: it repeats its last prompt and appends. It\nsent "
        f"{percent(sums[1].share_saved)} fewer, for {live['openai_prompts']} and "
        f"{live['anthropic_prompts']}, with {live['value_recall']} of the values in view.",
    ]
    if (known[2]["value_recall"].value or 0) > (known[0]["value_recall"].value or 0):
        lines.append(
            f"{sums[2].case} showed more of the values than {sums[0].case} "
            f"({baseline['value_recall']} to {paper['value_recall']}), as the newest\nresults are "
            f"drawn on most; of the results it showed {baseline['result_recall']} to "
            f"{paper['result_recall']}, and everything needed at\n"
            f"{baseline['turns_with_all_values']} of the steps to "
            f"{paper['turns_with_all_values']}."
        )
    return lines


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

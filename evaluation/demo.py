"""Start the server, replay a recorded agent run through it one model call at a time, and show
what the agent needed after its history was compacted, what the summary held of it and what would
have been shown; what is sent and what that costs; and one call explained.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import contextrender_bridge
from contextrender_bridge.base.setting_kinds import LIVE_BUDGET, LIVE_POLICY
from contextrender_bridge.client import ContextRender
from contextrender_bridge.local_service import temporary_service
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engine.call.request import DEFAULT_BUDGET
from engine.parameters import budget_name
from evaluation.bootstrap import Bootstrap, Estimate
from evaluation.cases import Case
from evaluation.command import cases_of, count
from evaluation.compactions import measure_runs
from evaluation.explained import Telling, print_explanation
from evaluation.over_http import HttpReplay
from evaluation.progress import progress
from evaluation.report import compaction_table, console, percent, table
from evaluation.runs import Run, read_runs
from evaluation.scores import CaseScore, Prompt, RunScore, Turn, totals

DATA = Path(contextrender_bridge.__file__).parent / "data"
SHIPPED = DATA / "demo.jsonl"
COMPACTION = DATA / "demo_compaction.json"
"""Before which message of the shipped run its history is compacted, and the summary."""
LIVE_AND_FULL, OTHERS = (0, 3), (1, 2)
"""Numbers of the cases that are printed together."""
PAPER, LIVE, BASELINE, FULL = "contextrender", LIVE_POLICY, "prune", "full"
FEW_RUNS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender demo`."""
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="runs as .jsonl or .jsonl.gz (one is shipped)"
    )
    parser.add_argument("--traces", metavar="FILE", help="the same as FILE")
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
    """Replays the runs over HTTP and prints the figures."""
    live, *others = cases_of(f"{LIVE}@{LIVE_BUDGET},{PAPER},{BASELINE},{FULL}", str(args.budget))
    source = Path(args.traces or args.file or SHIPPED)
    found = read_runs([source], args.limit + 1)
    runs = found[: args.limit]
    out = console()
    out.print("Starting the service ...")
    with temporary_service() as own, ContextRender(own.url, own.token) as client:
        out.print(f"Ready at {own.url}. Replaying {_plural(len(runs), 'run')} through it.\n")
        telling = Telling(live, others[1])
        scores = _replay(HttpReplay(client), runs, [live, *others], telling)
        _print_compactions(out, compacted(runs[0]) if source == SHIPPED else found)
        _print_scores(out, scores, LIVE_AND_FULL)
        out.print(told_of_live(totals(scores), _estimates(scores)), end="\n\n")
        if len(found) > len(runs):
            out.print(f"The first {args.limit} runs of {source}; --limit N takes more.\n")
        if telling.turn is not None:
            told = scores[telling.run]
            view = client.explain(
                told.sessions[0],
                turn=telling.turn.number,
                budget=budget_name(live.budget),
                policy=live.policy,
            )
            drawn_on = {event.position for event in telling.turn.events}
            print_explanation(out, told.id, view, drawn_on)
    out.print("\n[bold]Other policies[/bold]")
    _print_scores(out, scores, OTHERS)
    out.print(*told_of_others(totals(scores), _estimates(scores)), sep="\n")
    return 0


def compacted(whole: Run) -> list[Run]:
    """The shipped run as its agent would have gone on with the summary that is shipped with it."""
    shipped = json.loads(COMPACTION.read_text(encoding="utf-8"))
    first, rest = whole.messages[: shipped["at"]], whole.messages[shipped["at"] :]
    summary = {"role": "user", "content": shipped["summary"]}
    return [
        replace(whole, messages=first),
        replace(
            whole,
            id=f"{whole.id}#2",
            messages=[whole.messages[0], summary, *rest],
            continues=whole.id,
        ),
    ]


def _print_compactions(out: Console, runs: Sequence[Run]) -> None:
    if any(run.continues for run in runs):
        out.print(compaction_table(measure_runs(runs)))


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


def _print_scores(out: Console, scores: Sequence[RunScore], cases: Sequence[int]) -> None:
    """A table of the cases of these numbers."""
    made = table(
        "",
        *("run", "budget", "tokens\nsaved", "OpenAI's\nbill", "Anthropic's\nbill"),
        *("result\nrecall", "value\nrecall", "steps\nwith all"),
        folds="run",
    )
    for run in scores:
        _add_rows(made, run.id, [run], cases)
    if len(scores) > 1:
        _add_rows(made, f"all {len(scores)}", scores, cases)
    out.print(made)


def _estimates(scores: Sequence[RunScore]) -> list[dict[str, Estimate]]:
    bootstrap = Bootstrap(scores, 1)
    return [bootstrap.estimates(index) for index in range(len(scores[0].cases))]


def _add_rows(made: Table, name: str, scores: Sequence[RunScore], cases: Sequence[int]) -> None:
    sums, known = totals(scores), _estimates(scores)
    recall = sums[0].recall
    made.add_row(f"{escape(name)}: {recall.invocations:,} calls", style="bold")
    made.add_row(f"  {recall.tokens_full:,} tokens of history", style="bold")
    for index in cases:
        score = sums[index]
        made.add_row(
            f"  {score.case.policy}",
            score.case.size if score.case.policy != FULL else "-",
            percent(score.share_saved),
            *(percent(known[index][name].value) for name in SHOWN),
            end_section=index == cases[-1],
        )


SHOWN = (
    "openai_prompts",
    "anthropic_prompts",
    "result_recall",
    "value_recall",
    "turns_with_all_values",
)


LEGEND = (
    "Bills are of prompts, with the provider's prompt cache, in % of full history's. Recall\n"
    "is the share of what each call used that was in view: of the results, complete, and\n"
    "of their values, anywhere; steps with all had every value they used.\n"
)


def told_of_live(sums: Sequence[CaseScore], known: Sequence[Mapping[str, Estimate]]) -> str:
    """What the live default's figures come to, in words."""
    live = _percents(known[0])
    return (
        f"{LEGEND}\n{sums[0].case} is for live agents: it repeats its last prompt and appends. It\n"
        f"sent {percent(sums[0].share_saved)} fewer tokens, for {live['openai_prompts']} of the "
        f"bill with OpenAI's cache and {live['anthropic_prompts']} with\nAnthropic's, with "
        f"{live['value_recall']} of the values in view."
    )


def told_of_others(sums: Sequence[CaseScore], known: Sequence[Mapping[str, Estimate]]) -> list[str]:
    """What the figures of the paper's policy and of a baseline come to, in words."""
    paper, baseline = _percents(known[1]), _percents(known[2])
    lines = [
        f"{sums[1].case} is the paper's policy and the API's default. It sent "
        f"{percent(sums[1].share_saved)} fewer tokens, for\n{paper['openai_prompts']} of the bill "
        f"with OpenAI's cache and {paper['anthropic_prompts']} with Anthropic's: it selects anew "
        "at every\ncall, and what changes is not read from the cache."
    ]
    if (known[2]["value_recall"].value or 0) > (known[1]["value_recall"].value or 0):
        lines.append(
            f"{sums[2].case} showed more of the values than {sums[1].case} "
            f"({baseline['value_recall']} to {paper['value_recall']}), as the newest\nresults are "
            f"drawn on most; of the results it showed {baseline['result_recall']} to "
            f"{paper['result_recall']}, and everything needed at\n"
            f"{baseline['turns_with_all_values']} of the steps to "
            f"{paper['turns_with_all_values']}."
        )
    return lines


def _percents(known: Mapping[str, Estimate]) -> dict[str, str]:
    return {name: percent(known[name].value) for name in SHOWN}


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

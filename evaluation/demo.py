"""Replay a recorded agent run, one model call at a time, and show what the agent needed after its
history was compacted, what the summary held of it and what would have been shown; what is sent
under some policies, and what that costs.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import contextrender_bridge
from contextrender_bridge.base.setting_kinds import LIVE_BUDGET, LIVE_POLICY
from rich.markup import escape
from rich.table import Table

from engine.call.settings import DEFAULT_BUDGET
from evaluation.bootstrap import Bootstrap
from evaluation.cases import cases_of
from evaluation.compactions import measure_runs
from evaluation.progress import progress
from evaluation.replay_command import count
from evaluation.report import compaction_table, console, percent, table
from evaluation.runs import Run, read_runs
from evaluation.scores import RunScore, totals
from evaluation.workers import replay_runs

DATA = Path(contextrender_bridge.__file__).parent / "data"
SHIPPED = DATA / "demo.jsonl"
COMPACTION = DATA / "demo_compaction.json"
"""Before which message of the shipped run its history is compacted, and the summary."""
POLICIES: Final = f"{LIVE_POLICY}@{LIVE_BUDGET},full,contextrender,prune"
FEW_RUNS = 5
SHOWN: Final = (
    *("openai_prompts", "anthropic_prompts"),
    *("result_recall", "value_recall", "turns_with_all_values"),
)
LEGEND: Final = (
    f"{LIVE_POLICY} is for live agents: it repeats its last prompt and appends. contextrender\n"
    "is the paper's policy and the API's default: it selects anew at every call, and what\n"
    "changes is not read from the provider's cache. prune keeps the newest results.\n\n"
    "Bills are of prompts, with the provider's prompt cache, in % of full history's. Recall\n"
    "is the share of what each call used that was in view: of the results, complete, and\n"
    "of their values, anywhere; steps with all had every value they used."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender demo`."""
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="runs as .jsonl or .jsonl.gz (one is shipped)"
    )
    parser.add_argument(
        "--limit", type=count, default=FEW_RUNS, metavar="N", help="the first N runs (%(default)s)"
    )
    parser.add_argument(
        "--budget",
        type=count,
        default=DEFAULT_BUDGET,
        metavar="N",
        help=f"tokens, of all policies but {LIVE_POLICY} (%(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Replays the runs and prints the figures."""
    cases = cases_of(POLICIES, str(args.budget))
    source = Path(args.file or SHIPPED)
    found = read_runs([source], args.limit + 1)
    runs = found[: args.limit]
    total = sum(run.invocations for run in runs) * len(cases)
    with progress("Replaying model calls", total) as advance:
        scores = replay_runs(runs, cases, None, advance)
    out = console()
    histories = compacted(runs[0]) if source == SHIPPED else found
    if any(run.continues for run in histories):
        out.print(compaction_table(measure_runs(histories)))
    out.print(_table_of(scores))
    out.print(LEGEND)
    if len(found) > len(runs):
        out.print(f"\nThe first {args.limit} runs of {source}; --limit N takes more.")
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


def _table_of(scores: Sequence[RunScore]) -> Table:
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
    return made


def _add_rows(made: Table, name: str, scores: Sequence[RunScore]) -> None:
    sums, bootstrap = totals(scores), Bootstrap(scores, 1)
    recall = sums[0].recall
    made.add_row(f"{escape(name)}: {recall.invocations:,} calls", style="bold")
    made.add_row(f"  {recall.tokens_full:,} tokens of history", style="bold")
    for index, score in enumerate(sums):
        known = bootstrap.estimates(index)
        made.add_row(
            f"  {score.case.policy}",
            score.case.size if score.case.policy != "full" else "-",
            percent(score.share_saved),
            *(percent(known[name].value) for name in SHOWN),
            end_section=index == len(sums) - 1,
        )

"""Replay a recorded agent run, one model call at a time, and show what the agent needed after its
history was compacted, what the summary held of it and what would have been shown; what is sent
under some policies, and what that costs; and one of its calls explained by the service.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import contextrender_bridge
from contextrender_bridge.base.setting_kinds import LIVE_BUDGET, LIVE_POLICY
from contextrender_bridge.client import ContextRender
from contextrender_bridge.local_service import temporary_service
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engine.call.settings import DEFAULT_BUDGET
from evaluation.bootstrap import Bootstrap
from evaluation.cases import cases_of
from evaluation.compactions import measure_runs
from evaluation.replay_command import count
from evaluation.report import compaction_table, console, percent, table
from evaluation.runs import Run, read_runs
from evaluation.scores import RunScore, totals, turns_of
from evaluation.workers import replay_runs

DATA = Path(contextrender_bridge.__file__).parent / "data"
SHIPPED = DATA / "demo.jsonl"
COMPACTION = DATA / "demo_compaction.json"
"""Before which message of the shipped run its history is compacted, and the summary."""
POLICIES: Final = f"{LIVE_POLICY}@{LIVE_BUDGET},full,contextrender,prune"
LIVE_AND_FULL: Final = (0, 1)
OTHERS: Final = (2, 3)
"""Numbers of the policies that are printed together."""
FEW_RUNS = 5
EXPLAINED: Final = 12
"""Results of the explained call that are printed at least."""
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
    scores = replay_runs(runs, cases, None)
    out = console()
    histories = compacted(runs[0]) if source == SHIPPED else found
    if any(run.continues for run in histories):
        out.print(compaction_table(measure_runs(histories)))
    out.print(_table_of(scores, LIVE_AND_FULL))
    if len(found) > len(runs):
        out.print(f"The first {args.limit} runs of {source}; --limit N takes more.")
    print_one_call(out, runs[0])
    out.print("\n[bold]Other policies[/bold]", _table_of(scores, OTHERS), LEGEND, sep="\n")
    return 0


def print_one_call(out: Console, run: Run) -> None:
    """Sends a run's calls through a service of its own and explains the one that used most."""
    call = max(turns_of(run), key=lambda turn: len({event.position for event in turn.events}))
    with temporary_service() as own, ContextRender(own.url, own.token) as client:
        for turn in turns_of(run)[: call.number]:
            if turn.position:
                client.fit(run.id, run.messages[: turn.position], fail_open=False)
        view = client.explain(run.id, turn=call.number)
    drawn_on = {event.position for event in call.events}
    rows = sorted(view["results"], key=lambda row: (row["position"] not in drawn_on, row["age"]))
    out.print(
        f"\n[bold]One call explained: call {call.number} of {escape(run.id)}, which used "
        f"{len(drawn_on)} results[/bold]\n"
        f"{view['tokens']['after']:,} of {view['tokens']['before']:,} tokens were sent, of "
        f"{view['budget']:,} that its budget had then."
    )
    made = table("", "", "tool", "age", "c", "tokens", left=2, folds="tool")
    made.add_column("shown", justify="left")
    for row in rows[: max(EXPLAINED, len(drawn_on))]:
        made.add_row(
            *("*" if row["position"] in drawn_on else "", escape(row["name"]), str(row["age"])),
            *(f"{row['reuse']:.2f}", f"{row['tokens']:,}"),
            row["shown"] if row["order"] is not None else f"omitted: {row['reason']}",
        )
    out.print(made)
    out.print(
        "* the call used it. c is its observed reuse: a value that n results hold counts 1/n."
    )


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


def _table_of(scores: Sequence[RunScore], cases: Sequence[int]) -> Table:
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
    return made


def _add_rows(made: Table, name: str, scores: Sequence[RunScore], cases: Sequence[int]) -> None:
    sums, bootstrap = totals(scores), Bootstrap(scores, 1)
    recall = sums[0].recall
    made.add_row(f"{escape(name)}: {recall.invocations:,} calls", style="bold")
    made.add_row(f"  {recall.tokens_full:,} tokens of history", style="bold")
    for index in cases:
        score = sums[index]
        known = bootstrap.estimates(index)
        made.add_row(
            f"  {score.case.policy}",
            score.case.size if score.case.policy != "full" else "-",
            percent(score.share_saved),
            *(percent(known[name].value) for name in SHOWN),
            end_section=index == cases[-1],
        )

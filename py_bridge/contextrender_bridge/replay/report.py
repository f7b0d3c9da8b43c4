"""What a replay prints and writes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from contextrender_bridge.errors import CommandError
from contextrender_bridge.replay.scores import CaseScore, RunScore, totals
from engine.measures import AGE_BINS

PLAIN_WIDTH = 110


def console() -> Console:
    """Stdout, wide enough for the tables where it is no terminal."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def table(title: str, *columns: str, left: int = 1) -> Table:
    """An empty table whose first `left` columns hold names and whose others hold figures."""
    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        made.add_column(column, justify="left" if index < left else "right", no_wrap=index < left)
    return made


def percent(share: float | None) -> str:
    """A share as a percentage; a dash where there is none."""
    return "-" if share is None else f"{share:.1%}"


def tables(runs: Sequence[RunScore]) -> list[Table]:
    """Cost and recall of every case over all runs."""
    sums = totals(runs)
    return [_cost_table(sums), _recall_table(sums)]


def notes(runs: Sequence[RunScore]) -> str:
    """What one must know to read the tables."""
    first = totals(runs)[0]
    calls = max(first.recall.invocations, 1)
    lines = [
        f"{len(runs)} runs. Tokens are those the budget limits; system prompts and current user "
        f"messages add {first.tokens_outside:,} to either."
    ]
    recording = sum(run.recording for run in runs)
    embedding = sum(run.embedding for run in runs)
    if recording:
        lines.append(
            f"Recording took {1000 * recording / calls:.1f} ms a call and embedding "
            f"{1000 * embedding / calls:.1f} ms, once for all policies, on top of ms/call."
        )
    else:
        lines.append("ms/call is the whole round trip, recording included.")
    return "\n".join(lines)


def to_json(runs: Sequence[RunScore]) -> dict[str, Any]:
    """Every case's figures over all runs and for each, without times: reproducible."""
    cases = []
    for index, total in enumerate(totals(runs)):
        each = [
            {"id": run.id, "source": run.source, "model": run.model, **_own(run.cases[index])}
            for run in runs
        ]
        cases.append({**total.to_json(), "runs": len(runs), "per_run": each})
    return {"format": "contextrender-replay/1", "cases": cases}


def write_json(runs: Sequence[RunScore], path: Path) -> None:
    """Writes `to_json`. Raises CommandError when it cannot."""
    try:
        path.write_text(json.dumps(to_json(runs), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}.") from None


def _own(score: CaseScore) -> dict[str, Any]:
    figures = score.to_json()
    del figures["policy"], figures["budget"]
    return figures


def _cost_table(sums: Sequence[CaseScore]) -> Table:
    made = table(
        "What was sent",
        *("policy", "budget", "calls", "over budget"),
        *("tokens full", "rendered", "saved", "ms/call"),
    )
    for total in sums:
        recall = total.recall
        made.add_row(
            total.case.policy,
            f"{total.case.budget:,}",
            f"{recall.invocations:,}",
            f"{recall.over_budget:,}",
            f"{recall.tokens_full:,}",
            f"{recall.tokens_rendered:,}",
            percent(total.share_saved),
            f"{1000 * total.seconds / max(recall.invocations, 1):.1f}",
        )
    return made


def _recall_table(sums: Sequence[CaseScore]) -> Table:
    ages = [label for label, _ in AGE_BINS]
    made = table(
        "What later steps drew on that was in view (Later-Used Recall; ages in turns)",
        *("policy", "budget", "events", "results", *(f"age {age}" for age in ages)),
        *("values", "turns with all"),
    )
    for total in sums:
        recall = total.recall
        made.add_row(
            total.case.policy,
            f"{total.case.budget:,}",
            f"{recall.events:,}",
            percent(recall.result_recall),
            *(percent(recall.result_recall_by_age[age]) for age in ages),
            percent(recall.value_recall),
            percent(recall.complete_turns),
        )
    return made

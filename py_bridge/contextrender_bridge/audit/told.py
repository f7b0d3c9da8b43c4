"""An audit in words: for the terminal, as JSON, and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from contextrender_bridge.audit.bills import Bill
from contextrender_bridge.audit.recorded import Found
from contextrender_bridge.audit.replayed import Replayed
from contextrender_bridge.printing import printable

TITLES = ("model", "calls", "prompt", "from cache", "written to it", "output", "dollars")
NOT_SEEN = (
    "Not in what agents record, and so not in the replay: system prompts, tools' schemas, and "
    "calls for titles and summaries."
)
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right}"
    "td:first-child,th:first-child{text-align:left}"
)


@dataclass(frozen=True)
class Audit:
    """Everything that was found."""

    found: Found
    bills: Sequence[Bill]
    replayed: Replayed

    @property
    def head(self) -> list[str]:
        """Sentences: what was read, and what could not be."""
        runs = self.found.runs
        by = Counter(run.source for run in runs)
        sources = ", ".join(f"{count:,} of {name}" for name, count in by.most_common())
        calls = sum(max(run.billed, run.calls) for run in runs)
        said = [f"Runs: {len(runs):,} ({sources}); model calls: {calls:,}."]
        counts = self.found.counts
        lost = [f"{counts[name]:,} {name}" for name in _LOST if counts[name]]
        if lost:
            said.append(f"Of {counts['lines']:,} lines read, left out: {', '.join(lost)}.")
        return said

    @property
    def advice(self) -> list[str]:
        """Sentences: what to use, on how many runs that rests, and how."""
        verdict, replayed = self.replayed.verdict, self.replayed
        if verdict is None:
            return ["No run has tool results to leave out: there is nothing to save."]
        said = [verdict.sentence, f"Replayed: runs {replayed.runs:,}, calls {replayed.calls:,}."]
        if replayed.left_out:
            said.append(f"{replayed.left_out:,} older runs were not replayed; --limit takes more.")
        said.append(NOT_SEEN)
        if verdict.best is not None:
            case = verdict.best.case
            said.append(
                f"To use it: contextrender wrap --policy {case.name} --budget {case.budget} AGENT"
            )
        return said


_LOST = ("damaged lines", "unknown lines", "unreadable files")


def as_text(audit: Audit) -> str:
    """For the terminal."""
    rows = [TITLES, *map(_row, audit.bills)]
    wide = [max(len(row[place]) for row in rows) for place in range(len(TITLES))]
    lines = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, wide, strict=True))
        )
        for row in rows
    ]
    table = ["What they cost, as the providers counted", "", *lines, ""] if audit.bills else []
    return "\n".join([*audit.head, "", *table, *audit.advice])


def as_json(audit: Audit) -> dict[str, Any]:
    """For programs."""
    replayed = audit.replayed
    return {
        "runs": len(audit.found.runs),
        "read": dict(audit.found.counts),
        "bills": [asdict(bill) for bill in audit.bills],
        "replayed": {
            "runs": replayed.runs,
            "calls": replayed.calls,
            "left_out": replayed.left_out,
        },
        "verdict": replayed.verdict.to_json() if replayed.verdict else None,
    }


def as_page(audit: Audit) -> str:
    """A page that opens offline and runs nothing."""
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _row(bill)) + "</tr>"
        for bill in audit.bills
    )
    titles = "".join(f"<th>{title}</th>" for title in TITLES)
    said = "".join(f"<p>{escape(line)}</p>" for line in audit.head)
    advice = "".join(f"<p>{escape(line)}</p>" for line in audit.advice)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>ContextRender: audit</title>'
        f"<style>{STYLE}</style><h1>What your agents' runs cost</h1>{said}"
        f"<table><tr>{titles}</tr>{rows}</table><h2>What to use</h2>{advice}</html>\n"
    )


def _row(bill: Bill) -> tuple[str, ...]:
    counts = (bill.calls, bill.prompt, bill.cached, bill.written, bill.output)
    dollars = "no price" if bill.dollars is None else f"{bill.dollars:,.2f}"
    return (printable(bill.model, 40), *(f"{count:,}" for count in counts), dollars)

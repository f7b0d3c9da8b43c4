"""Prints an audit: in the terminal, as JSON, as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from contextrender_bridge.audit.bills import CAUSES, Anew, Bill
from contextrender_bridge.audit.recorded import Found
from contextrender_bridge.audit.replayed import Replayed
from contextrender_bridge.base.prices import Prices
from contextrender_bridge.printing import printable
from evaluation.compactions import CompactionScore, within
from evaluation.report import percent

TITLES = ("model", "calls", "prompt", "from cache", "written to it", "output", "dollars")
OPTION_TITLES = ("budget", "of the bill", "steps that lack something", "dollars a run")
NOT_SEEN = (
    "Not in what agents record, and so not in the replay: system prompts, tools' schemas, and "
    "calls for titles and summaries."
)
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{padding:.2rem .8rem;text-align:right}"
    "td:first-child,th:first-child{text-align:left}meter{width:20rem}caption{text-align:left}"
)


@dataclass(frozen=True)
class Audit:
    """Everything that was found."""

    found: Found
    bills: Sequence[Bill]
    anew: Anew
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
            said.append(f"{replayed.left_out:,} older calls were not replayed; --limit takes more.")
        said.append(NOT_SEEN)
        if verdict.best is not None:
            said.append("To use it: contextrender wrap AGENT")
        return said

    @property
    def options(self) -> list[tuple[str, ...]]:
        """What was replayed, a row each: budget, share of the bill, of steps, dollars a run."""
        verdict = self.replayed.verdict
        if verdict is None:
            return []
        rows = [
            (
                option.case.size,
                percent(option.cost.value),
                percent(option.hidden.value),
                f"{option.dollars:,.2f}",
            )
            for option in verdict.options
        ]
        return [OPTION_TITLES, *rows]

    @property
    def compactions(self) -> list[str]:
        """Sentences: what the agents' own compactions lost."""
        lost = self.replayed.compactions
        if lost is None:
            return ["No session was compacted by its agent."]
        said = [f"Compactions by the agents themselves: {lost.count:,}."]
        if not lost.steps:
            return [*said, "No step after them drew on results from before."]
        shown = ", ".join(
            f"{lost.share(seen):.0%} {within(name)}" for name, seen in lost.shown.items()
        )
        prices = Prices.of()
        dollars = sum(
            price.fresh * tokens
            for model, tokens in lost.read_tokens.items()
            if (price := prices.of_model(model)) is not None
        )
        return [
            *said,
            f"{lost.steps:,} steps after them drew on results from before. The agent's summary "
            f"held all that {lost.share(lost.summary):.0%} of them needed; with what the agent "
            f"read again, {lost.share(lost.again):.0%}.",
            f"Read again: {lost.read_calls:,} results, {sum(lost.read_tokens.values()):,} tokens"
            + (f" (${dollars:,.2f} at the price of input)." if dollars else "."),
            f"ContextRender would have shown, with nothing read again: {shown}.",
        ]


_LOST = ("damaged lines", "unknown lines", "unreadable files")


def as_text(audit: Audit) -> str:
    """For the terminal."""
    lines = [*_aligned([TITLES, *map(_row, audit.bills)]), *_priced(audit.bills)]
    lines += [audit.anew.sentence] if audit.anew.sentence else []
    table = ["What they cost, as the providers counted", "", *lines, ""] if audit.bills else []
    advice = [*audit.advice, "", *_aligned(audit.options)]
    return "\n".join([*audit.head, "", *table, *audit.compactions, "", *advice]).rstrip()


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines: the first column to the left, the others to the right."""
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, wide, strict=True))
        )
        for row in rows
    ]


def as_json(audit: Audit) -> dict[str, Any]:
    """For programs."""
    replayed = audit.replayed
    return {
        "runs": len(audit.found.runs),
        "read": dict(audit.found.counts),
        "bills": [asdict(bill) for bill in audit.bills],
        "pauses": audit.anew.shares,
        "replayed": {
            "runs": replayed.runs,
            "calls": replayed.calls,
            "left_out": replayed.left_out,
        },
        "verdict": replayed.verdict.to_json() if replayed.verdict else None,
        "compactions": (replayed.compactions or CompactionScore()).to_json(),
    }


def as_page(audit: Audit) -> str:
    """A page that opens offline and runs nothing."""
    said = "".join(f"<p>{escape(line)}</p>" for line in audit.head)
    priced = "".join(f"<p>{escape(line)}</p>" for line in _priced(audit.bills))
    advice = "".join(f"<p>{escape(line)}</p>" for line in audit.advice)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>ContextRender: audit</title>'
        f"<style>{STYLE}</style><h1>What your agents' runs cost</h1>{said}"
        f"{_table([TITLES, *map(_row, audit.bills)])}{priced}{_pauses(audit.anew)}"
        f"<h2>What compaction lost</h2>{_compactions(audit)}"
        f"<h2>What to use</h2>{advice}{_table(audit.options)}</html>\n"
    )


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table, the first of titles."""
    made = [
        "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
        for row, tag in zip(rows, ["th", *["td"] * len(rows)], strict=False)
    ]
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in made)}</table>"


def _pauses(anew: Anew) -> str:
    if not any(anew.causes.values()):
        return f"<p>{anew.sentence}</p>"
    rows = {CAUSES[name]: share or 0.0 for name, share in anew.shares.items()}
    return _bars("Of the bill, a cache written anew", rows)


def _compactions(audit: Audit) -> str:
    """The sentences, and a bar for each share."""
    said = "".join(f"<p>{escape(line)}</p>" for line in audit.compactions)
    lost = audit.replayed.compactions
    if lost is None or not lost.steps:
        return said
    rows = {"the agent's summary": lost.summary, "and what it read again": lost.again}
    rows |= {f"ContextRender, {within(name)}": seen for name, seen in lost.shown.items()}
    shares = {name: lost.share(seen) or 0.0 for name, seen in rows.items()}
    return said + _bars("Steps that had all they needed", shares)


def _bars(caption: str, shares: Mapping[str, float]) -> str:
    bars = "".join(
        f'<tr><td>{escape(name)}</td><td><meter min="0" max="1" value="{share:.4f}"></meter></td>'
        f"<td>{share:.0%}</td></tr>"
        for name, share in shares.items()
    )
    return f"<table><caption>{caption}</caption>{bars}</table>"


def _priced(bills: Sequence[Bill]) -> list[str]:
    return [f"{bill.model} is priced as {bill.priced_as}." for bill in bills if bill.priced_as]


def _row(bill: Bill) -> tuple[str, ...]:
    counts = (bill.calls, bill.prompt, bill.cached, bill.written, bill.output)
    dollars = "no price" if bill.dollars is None else f"{bill.dollars:,.2f}"
    return (printable(bill.model, 40), *(f"{count:,}" for count in counts), dollars)

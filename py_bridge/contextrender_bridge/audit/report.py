"""Prints an audit: in the terminal, as JSON, as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.replay import Replayed
from contextrender_bridge.audit.run_costs import CAUSES, Bill, CacheRewrites
from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.worth import RULE_NAMES
from contextrender_bridge.evaluation.compactions import AGAIN, ALL, SUMMARY, CompactionScore, within
from contextrender_bridge.evaluation.tables import Rows, page, paragraphs, percent
from contextrender_bridge.printing import printable

COSTS = "What they cost, as the providers counted"
TITLES = ("model", "calls", "prompt", "from cache", "written to it", "output", "dollars")
OPTION_TITLES = ("budget", "of the bill", "steps that lack something", "dollars a run")
LOST = ("damaged lines", "unknown lines")
NOT_SEEN = (
    "Not in what agents record, and so not in the replay: system prompts, tools' schemas, and "
    "calls for titles and summaries."
)


@dataclass(frozen=True)
class Audit:
    """Everything that was found."""

    found: AuditInput
    bills: Sequence[Bill]
    anew: CacheRewrites
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
        lost = [f"{counts[name]:,} {name}" for name in LOST if counts[name]]
        if lost:
            said.append(f"Of {counts['lines']:,} lines read, left out: {', '.join(lost)}.")
        return said + self.found.sentences

    @property
    def costs(self) -> Rows:
        """What the runs cost, a row a model."""
        return Rows(COSTS, TITLES, [_row(bill) for bill in self.bills])

    @property
    def priced(self) -> list[str]:
        """Sentences: what stood in for a price, and what was written anew."""
        said = [
            f"{bill.model} is priced as {bill.price_source}."
            for bill in self.bills
            if bill.price_source
        ]
        return [*said, self.anew.sentence] if self.anew.sentence else said

    @property
    def advice(self) -> list[str]:
        """Sentences: what to use, on how many runs that rests, and how."""
        replayed = self.replayed
        said = []
        if replayed.shortened:
            said.append(
                f"{replayed.shortened:,} runs were sent shortened already, by `wrap` or by the "
                "agent: their costs count, but they are not replayed."
            )
        if replayed.verdict is None:
            return [*said, "No run has whole tool results to leave out: there is nothing to save."]
        for verdict in replayed.verdicts:
            head = f"{RULE_NAMES[verdict.rule]}: " if len(replayed.verdicts) > 1 else ""
            said.append(head + verdict.sentence)
        said.append(f"Replayed: runs {replayed.runs:,}, calls {replayed.calls:,}.")
        if replayed.left_out:
            said.append(f"{replayed.left_out:,} older calls were not replayed; --limit takes more.")
        said.append(NOT_SEEN)
        if any(verdict.best is not None for verdict in replayed.verdicts):
            said.append("To use it: contextrender wrap AGENT")
        return said

    @property
    def options(self) -> list[Rows]:
        """What was replayed, a table per provider: budget, share of the bill, of steps, dollars."""
        verdicts = self.replayed.verdicts
        return [
            Rows(
                RULE_NAMES[verdict.rule] if len(verdicts) > 1 else "",
                OPTION_TITLES,
                [
                    (
                        *(option.case.size, percent(option.cost.value)),
                        *(percent(option.hidden.value), f"{option.dollars:,.2f}"),
                    )
                    for option in verdict.options
                ],
            )
            for verdict in verdicts
        ]

    @property
    def compactions(self) -> list[str]:
        """Sentences: what the agents' own compactions lost."""
        replayed, lost = self.replayed, self.replayed.compactions
        if lost is None:
            return ["No session was compacted by its agent."]
        said = [
            f"Compactions by the agents themselves: {lost.count + replayed.hidden_summaries:,}."
        ]
        if replayed.hidden_summaries:
            said.append(
                f"Of {replayed.hidden_summaries:,} the agent's files have no summary in words "
                "(Codex encrypts it), so what it lost cannot be measured."
            )
        if lost.measured < lost.count:
            said.append(f"A random sample of {lost.measured:,} was measured.")
        if replayed.estimated:
            said.append(
                f"Of {replayed.estimated:,} it is estimated which files Claude Code put back: the "
                "last five it read, of 5,000 tokens each."
            )
        steps = lost.steps[ALL]
        if not steps:
            return [*said, "No step after them drew on results from before."]
        shown = ", ".join(f"{lost.share(name):.0%} {within(name)}" for name in lost.shown)
        prices = Prices.of()
        dollars = sum(
            price.fresh * tokens
            for model, tokens in lost.read_tokens.items()
            if (price := prices.of_model(model)) is not None
        )
        return [
            *said,
            f"{steps:,} steps after them drew on results from before. The agent's summary "
            f"and the files put back held all that {lost.share(SUMMARY):.0%} of them needed; with "
            f"what the agent read again, {lost.share(AGAIN):.0%}.",
            f"Read again: {lost.read_calls:,} results, {lost.read_tokens.total():,} tokens"
            + (f" (${dollars:,.2f} at the price of input)." if dollars else "."),
            f"ContextRender would have shown, with nothing read again: {shown}.",
        ]


def as_text(audit: Audit) -> list[str | Rows]:
    """For the terminal, part by part."""
    parts: list[str | Rows] = [*audit.head, ""]
    if audit.bills:
        parts += [audit.costs, *audit.priced, ""]
    parts += [*audit.compactions, "", *audit.advice]
    for table in audit.options:
        parts += ["", table]
    return parts


def as_json(audit: Audit) -> dict[str, Any]:
    """For programs."""
    replayed = audit.replayed
    return {
        "runs": len(audit.found.runs),
        "read": dict(audit.found.counts),
        "unreadable": audit.found.unreadable,
        "bills": [asdict(bill) for bill in audit.bills],
        "pauses": audit.anew.shares,
        "replayed": {
            "runs": replayed.runs,
            "calls": replayed.calls,
            "left_out": replayed.left_out,
            "sent_shortened": replayed.shortened,
        },
        "verdict": replayed.verdict.to_json() if replayed.verdict else None,
        "verdicts": {verdict.rule: verdict.to_json() for verdict in replayed.verdicts},
        "compactions": {
            **(replayed.compactions or CompactionScore()).to_json(),
            "hidden_summaries": replayed.hidden_summaries,
            "estimated": replayed.estimated,
        },
    }


def as_page(audit: Audit) -> str:
    """A page that opens offline and runs nothing."""
    anew, lost = audit.anew.shares, audit.replayed.compactions or CompactionScore()
    return page(
        "What your agents' runs cost",
        [
            paragraphs(audit.head),
            audit.costs.html,
            paragraphs(audit.priced),
            _bars("Of the bill, a cache written anew", {CAUSES[name]: anew[name] for name in anew}),
            "<h2>What compaction lost</h2>",
            paragraphs(audit.compactions),
            _bars(
                "Steps that had all they needed",
                {told: lost.share(name) for told, name in lost.rows.items()},
            ),
            "<h2>What to use</h2>",
            paragraphs(audit.advice),
            *(table.html for table in audit.options),
        ],
    )


def _bars(caption: str, shares: Mapping[str, float | None]) -> str:
    """A bar for each share; nothing where there are none."""
    if not any(shares.values()):
        return ""
    bars = "".join(
        f'<tr><td>{escape(name)}</td><td><meter min="0" max="1" value="{share or 0:.4f}"></meter>'
        f"</td><td>{share or 0:.0%}</td></tr>"
        for name, share in shares.items()
    )
    return f"<table><caption>{caption}</caption>{bars}</table>"


def _row(bill: Bill) -> tuple[str, ...]:
    counts = (bill.calls, bill.prompt, bill.cached, bill.written, bill.output)
    dollars = "no price" if bill.dollars is None else f"{bill.dollars:,.2f}"
    return (printable(bill.model, 40), *(f"{count:,}" for count in counts), dollars)

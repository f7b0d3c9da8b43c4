"""Formats an audit for the terminal, as JSON and as an HTML page.

Long because it has the sentences and tables of every part of an audit.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.replay import ReplayReport
from contextrender_bridge.audit.run_costs import CAUSES, CacheRewrites, ModelCost
from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.setting_kinds import AUTO as AUTO_NAME
from contextrender_bridge.base.worth import RULE_NAMES
from contextrender_bridge.engine.text.percentage import percent
from contextrender_bridge.evaluation.compaction_score import (
    ALL_STEPS,
    SUMMARY,
    WITH_REREADS,
    CompactionScore,
    budget_phrase,
)
from contextrender_bridge.evaluation.tables import Rows, page, paragraphs, percent_or_dash
from contextrender_bridge.printing import count_of, printable

COSTS = "Cost of the runs, by the providers' token counts"
TITLES = ("model", "calls", "prompt", "cache read", "cache write", "output", "dollars")
OPTION_TITLES = ("budget", "share of the cost", "steps with a miss", "dollars per run")
NOT_RECORDED = (
    "Agents do not record system prompts, tool schemas, or the calls for titles and summaries. The "
    "replay does not have them."
)

WITH_SHORTENED_RUNS = (
    "To see what `wrap` saved, run: contextrender savings",
    "To record a run that can be replayed, run: contextrender wrap --observe AGENT",
)


@dataclass(frozen=True)
class AuditReport:
    """All results of an audit."""

    audit_input: AuditInput
    model_costs: Sequence[ModelCost]
    cache_rewrites: CacheRewrites
    replay_report: ReplayReport

    @property
    def head(self) -> list[str]:
        """Sentences on what was read, and on what could not be read."""
        runs = self.audit_input.runs
        run_counts = Counter(run.source for run in runs)
        sources = ", ".join(f"{count:,} of {name}" for name, count in run_counts.most_common())
        calls = sum(max(run.counted_calls, run.calls) for run in runs)
        sentences = [f"Runs: {len(runs):,} ({sources}); model calls: {calls:,}."]
        return sentences + self.audit_input.sentences

    @property
    def costs(self) -> Rows:
        """A table of the runs' cost, with a row per model."""
        return Rows(COSTS, TITLES, [_row(cost) for cost in self.model_costs])

    @property
    def price_notes(self) -> list[str]:
        """Sentences on prices taken from other models, and on the cost of rewritten caches."""
        sentences = [
            f"{model_cost.model} is priced as {model_cost.price_source}."
            for model_cost in self.model_costs
            if model_cost.price_source
        ]
        return [*sentences, *filter(None, [self.cache_rewrites.sentence])]

    @property
    def advice(self) -> list[str]:
        """Sentences on the recommended setting, the runs it is based on, and how to use it."""
        report = self.replay_report
        sentences = []
        if report.shortened:
            is_all = report.shortened == len(self.audit_input.runs)
            runs = "all runs found" if is_all else count_of(report.shortened, "run")
            sentences.append(
                f"The prompts of {runs} were already shortened by `wrap` or by the agent. Their "
                "costs count, but they are not replayed."
            )
            if is_all:
                return [*sentences, *WITH_SHORTENED_RUNS]
        if report.verdict is None:
            other = "other run" if report.shortened else "run"
            return [*sentences, f"No {other} has tool results to omit, so nothing can be saved."]
        # Name the provider if there are verdicts on several.
        for verdict in report.verdicts:
            head = f"{RULE_NAMES[verdict.rule]}: " if len(report.verdicts) > 1 else ""
            sentences.append(head + verdict.sentence)
        sentences.append(f"Replayed: runs {report.runs:,}, calls {report.calls:,}.")
        if report.left_out:
            sentences.append(
                f"Not replayed: {count_of(report.left_out, 'older call')}. Raise --limit to replay "
                "more."
            )
        sentences.append(NOT_RECORDED)
        if any(verdict.best is not None for verdict in report.verdicts):
            sentences.append("To use it, run: contextrender wrap AGENT")
        return sentences

    @property
    def options(self) -> list[Rows]:
        """A table per provider, with a row for each replayed budget: its cost and its misses.

        If there is only one provider, its table has no title.
        """
        verdicts = self.replay_report.verdicts
        tables: list[Rows] = []
        for verdict in verdicts:
            rows = [
                (
                    option.case.size,
                    percent_or_dash(option.cost.value),
                    percent_or_dash(option.miss_rate.value),
                    f"{option.dollars:,.2f}",
                )
                for option in verdict.options
            ]
            title = RULE_NAMES[verdict.rule] if len(verdicts) > 1 else ""
            tables.append(Rows(title, OPTION_TITLES, rows))
        return tables

    @property
    def compactions(self) -> list[str]:
        """Sentences on how many compactions the agents made, and on what these lost.

        Some cannot be measured, or are measured with an assumption: this is reported, too.
        """
        report, score = self.replay_report, self.replay_report.compactions
        if score is None:
            return ["No agent compacted a session."]
        sentences = [f"Compactions by the agents: {score.count + report.hidden_summaries:,}."]
        if report.hidden_summaries:
            sentences.append(
                f"For {report.hidden_summaries:,} of them the agent's files have no summary as "
                "text (Codex encrypts it), so the loss cannot be measured."
            )
        if score.measured < score.count:
            sentences.append(f"A random sample of {score.measured:,} was measured.")
        if report.estimated:
            sentences.append(
                f"For {report.estimated:,} of them Claude Code did not record which files it put "
                "back. The last five that it read are assumed, up to 5,000 tokens of each."
            )
        if not score.steps[ALL_STEPS]:
            return [*sentences, "No later step used a result from before its compaction."]
        return [*sentences, *_compaction_losses(score)]


def _compaction_losses(score: CompactionScore) -> list[str]:
    """Return sentences on what the measured compactions lost, and how it could have been avoided.

    1. The share of later steps that still had every earlier value they used, from the agent's
       summary, or from what it read again.
    2. The results that it read again, with their cost.
    3. The same share with ContextRender's prompts.
    4. The compactions that an automatic budget would have avoided.
    """
    prices = Prices.of()
    dollars = sum(
        price.uncached * tokens
        for model, tokens in score.read_tokens.items()
        if (price := prices.of_model(model)) is not None
    )
    # Tokens of models without a price are left out. If no price is known, no cost is written.
    cost = f" (${dollars:,.2f} at the price of uncached input)" if dollars else ""
    shares = ", ".join(
        f"{percent(score.share(name) or 0)} {budget_phrase(name)}" for name in score.budgets
    )
    return [
        f"{score.steps[ALL_STEPS]:,} later steps used results from before a compaction. For "
        f"{percent(score.share(SUMMARY) or 0)} of them the agent's summary and the files put back "
        "held every value used; with what the agent read again, for "
        f"{percent(score.share(WITH_REREADS) or 0)}.",
        f"Read again: {count_of(score.read_calls, 'result')}, {score.read_tokens.total():,} "
        f"tokens{cost}.",
        f"ContextRender would have shown every value, with nothing read again, in {shares}.",
        f"Within an automatic budget, {score.avoided[AUTO_NAME]:,} of {score.measured:,} "
        "compactions would not have come: up to the last of these steps, no prompt was as long as "
        "the messages that the agent replaced.",
    ]


def as_text(audit: AuditReport) -> list[str | Rows]:
    """Return the lines and tables to print in the terminal."""
    parts: list[str | Rows] = [*audit.head, ""]
    if audit.model_costs:
        parts += [audit.costs, *audit.price_notes, ""]
    parts += [*audit.compactions, "", *audit.advice]
    for table in audit.options:
        parts += ["", table]
    return parts


def as_json(audit: AuditReport) -> dict[str, Any]:
    """Return the audit as plain values."""
    report = audit.replay_report
    return {
        "runs": len(audit.audit_input.runs),
        "read": dict(audit.audit_input.counts),
        "unreadable": audit.audit_input.unreadable,
        "bills": [asdict(cost) for cost in audit.model_costs],
        # The share of the cost for writing a lost cache again, by the cause of the loss.
        "pauses": audit.cache_rewrites.shares,
        # `ReplayReport` describes the counts.
        "replayed": {
            "runs": report.runs,
            "calls": report.calls,
            "left_out": report.left_out,
            "sent_shortened": report.shortened,
        },
        # The verdict on the provider with the most calls, and the verdicts by billing rule.
        "verdict": report.verdict.to_json() if report.verdict else None,
        "verdicts": {verdict.rule: verdict.to_json() for verdict in report.verdicts},
        "compactions": {
            **(report.compactions or CompactionScore()).to_json(),
            "hidden_summaries": report.hidden_summaries,
            "estimated": report.estimated,
        },
    }


def as_page(audit: AuditReport) -> str:
    """Return the audit as an HTML page, which opens offline and runs no script."""
    rewrite_shares = {CAUSES[cause]: share for cause, share in audit.cache_rewrites.shares.items()}
    score = audit.replay_report.compactions or CompactionScore()
    step_shares = {label: score.share(name) for label, name in score.rows.items()}
    return page(
        "What your agents' runs cost",
        [
            paragraphs(audit.head),
            audit.costs.html,
            paragraphs(audit.price_notes),
            _bars("Share of the cost for writing a cache again", rewrite_shares),
            "<h2>What compactions lost</h2>",
            paragraphs(audit.compactions),
            _bars("Steps whose values were all visible", step_shares),
            "<h2>What to use</h2>",
            paragraphs(audit.advice),
            *(table.html for table in audit.options),
        ],
    )


def _bars(caption: str, shares: Mapping[str, float | None]) -> str:
    """Return an HTML table with a bar for each share; an empty text if all are 0 or unknown."""
    if not any(shares.values()):
        return ""
    bars = "".join(
        f'<tr><td>{escape(name)}</td><td><meter min="0" max="1" value="{share or 0:.4f}"></meter>'
        f"</td><td>{share or 0:.0%}</td></tr>"
        for name, share in shares.items()
    )
    return f"<table><caption>{caption}</caption>{bars}</table>"


def _row(cost: ModelCost) -> tuple[str, ...]:
    """Return a model's row in the table of costs."""
    counts = cost.calls, cost.prompt, cost.cache_read, cost.cache_write, cost.output
    dollars = "no price" if cost.dollars is None else f"{cost.dollars:,.2f}"
    return (printable(cost.model, 40), *(f"{count:,}" for count in counts), dollars)

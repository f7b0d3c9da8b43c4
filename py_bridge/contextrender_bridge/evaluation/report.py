"""What a replay prints, and its page."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from contextrender_bridge.evaluation.bootstrap import Bootstrap, Difference, Estimate
from contextrender_bridge.evaluation.compactions import ALL, CompactionScore
from contextrender_bridge.evaluation.figures import AGES, BY_NAME, Figure
from contextrender_bridge.evaluation.scores import CaseScore, RunScore, totals
from contextrender_bridge.evaluation.tables import Rows, paragraphs, percent
from contextrender_bridge.evaluation.verdict import Verdict

CLOSED_LOOP: Final = "Closed loop: prompts and output, % of full history's; per 100 steps"
TABLES: Final = {
    "What later steps used that was in view, % (Later-Used Recall; ages in turns)": {
        "result_recall": "results",
        **{f"result_recall {age}": f"age\n{age}" for age in AGES},
        "value_recall": "values",
        "turns_with_all_values": "turns\nwith all",
        "newest_complete": "newest\ncomplete",
    },
    "What it cost, % of full history's: the paper's C, and prompts as providers bill them": {
        "cost_relative": "C",
        "openai_prompts": "OpenAI's\ncache",
        "anthropic_prompts": "Anthropic's\ncache",
        "anthropic_end_prompts": "one\nbreakpoint",
        "cost_dollars": "C, dollars\na run",
    },
    CLOSED_LOOP: {
        "openai_loop": "OpenAI's\ncache",
        "anthropic_loop": "Anthropic's\ncache",
        "anthropic_end_loop": "one\nbreakpoint",
        "refetches": "calls\nagain",
        "steps_without": "steps\nwithout",
    },
}
"""Figures by title, and their columns'."""
WIDE: Final = {
    *("result_recall", "value_recall", "turns_with_all_values"),
    *("cost_relative", "openai_prompts", "anthropic_prompts"),
    *("openai_loop", "anthropic_loop", "refetches"),
}
"""Those with an interval."""


@dataclass(frozen=True)
class Report:
    """What was replayed, and what came of it; `lost` is what compactions lost, if any were."""

    runs: Sequence[RunScore]
    bootstrap: Bootstrap
    compared: Sequence[Difference]
    verdict: Verdict
    lost: CompactionScore | None

    @property
    def tables(self) -> list[Rows]:
        """What was sent, what was in view, what it cost, and the comparisons asked for."""
        sums = totals(self.runs)
        estimates = [self.bootstrap.estimates(index) for index in range(len(sums))]
        made = [_sent_table(sums)]
        for title, figures in TABLES.items():
            columns = [part for name in figures for part in _wide(name, figures[name], "")]
            rows = [
                [
                    *(total.case.name, total.case.size),
                    *(cell for name in figures for cell in _cells(BY_NAME[name], known[name])),
                ]
                for total, known in zip(sums, estimates, strict=True)
                if title != CLOSED_LOOP or total.loop
            ]
            if rows:
                made.append(Rows(title, ("policy", "budget", *columns), rows))
        by_pair = groupby(self.compared, key=lambda each: (each.case, each.other))
        for (case, other), group in by_pair:
            title = f"{case} less {other}, paired by task"
            made.append(Rows(title, ("figure", "difference", "", ""), [*map(_differs, group)]))
        return [*made, compaction_table(self.lost)] if self.lost else made

    @property
    def notes(self) -> list[str]:
        """What one must know to read the tables."""
        sums = totals(self.runs)
        calls = max(sums[0].recall.invocations, 1)
        recording, embedding = (
            1000 * sum(times) / calls
            for times in zip(*((run.recording, run.embedding) for run in self.runs), strict=True)
        )
        return [
            f"Runs: {len(self.runs)}. Tasks: {self.bootstrap.tasks}. Tokens are those the budget "
            "limits: system\nprompts and current user messages add "
            f"{sums[0].tokens_outside:,} to both counts.",
            "In brackets: 95% of resamplings of the tasks. docs/evaluation.md defines each figure.",
            f"Recording took {recording:.1f} ms a call and embedding {embedding:.1f} ms, once for "
            "all policies, on top of ms/call.\n"
            "What else policies share is in ms/call of the first that needs it.",
            *(
                f"{total.case} had no model at {total.warned:,} calls: its figures say little."
                for total in sums
                if total.warned
            ),
        ]

    def parts_of_page(self, curve: str, command: Sequence[str]) -> list[str]:
        """The verdict, the curve of cost against what is in view, the tables, how this was made."""
        return [
            paragraphs([self.verdict.sentence]),
            curve,
            *(table.html for table in self.tables),
            paragraphs([*self.notes, f"Made by: {command[0]} {shlex.join(command[1:])}"]),
        ]


def compaction_table(score: CompactionScore) -> Rows:
    """What agents' own compactions lost, and what would have been shown of it."""
    many = "compaction" if score.count == 1 else "compactions"
    title = f"After {score.count} {many} by the agent: {score.steps[ALL]} steps"
    rows = [
        (name, percent(score.share(seen)), percent(score.share_of_values(seen)))
        for name, seen in score.rows.items()
    ]
    return Rows(title, ("", "of steps that used what was before", "of those values"), rows)


def _sent_table(sums: Sequence[CaseScore]) -> Rows:
    columns = (
        *("policy", "budget", "calls", "over\nbudget", "tokens\nfull", "tokens\nrendered"),
        *("saved", "policy's\nmodel", "embedded", "ms/call"),
    )
    rows = []
    for total in sums:
        recall, own = total.recall, total.own
        counts = recall.invocations, recall.over_budget, recall.tokens_full, recall.tokens_rendered
        milliseconds = 1000 * total.seconds / max(recall.invocations, 1)
        rows.append(
            [
                *(total.case.name, total.case.size, *(f"{count:,}" for count in counts)),
                *(percent(total.share_saved), f"{own.prompt + own.output:,}"),
                *(f"{own.embedded:,}", f"{milliseconds:.1f}"),
            ]
        )
    return Rows("What was sent", columns, rows)


def _differs(found: Difference) -> tuple[str, str, str, str]:
    """A figure, by how much it differs, in what interval, and whether that is better or worse."""
    figure, estimate = found.figure, found.estimate
    by, within = _shown(figure, estimate.value, True), _interval(figure, estimate, True)
    return figure.title, by, within, found.verdict


def _cells(figure: Figure, known: Estimate) -> list[str]:
    return _wide(figure.name, _shown(figure, known.value), _interval(figure, known))


def _wide(name: str, value: str, interval: str) -> list[str]:
    """The cells of a figure: two where its interval is told."""
    return [value, interval] if name in WIDE else [value]


def _shown(figure: Figure, value: float | None, signed: bool = False) -> str:
    if value is None:
        return "-"
    sign = "+" if signed else ""
    if figure.percent:
        return f"{100 * value:{sign}.1f}"
    return f"{value:{sign}.3f}" if "dollars" in figure.name else f"{value:{sign},.0f}"


def _interval(figure: Figure, estimate: Estimate, signed: bool = False) -> str:
    if estimate.low is None:
        return ""
    low, high = (_shown(figure, end, signed) for end in (estimate.low, estimate.high))
    return f"[{low},{high}]"

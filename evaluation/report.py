"""What a replay prints, and its page."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from evaluation.bootstrap import Bootstrap, Difference, Estimate
from evaluation.compactions import ALL, CompactionScore
from evaluation.figures import AGES, BY_NAME, Figure
from evaluation.scores import CaseScore, RunScore, totals
from evaluation.tables import Rows, paragraphs, percent
from evaluation.verdict import Verdict

TABLES: Final = (
    (
        "What later steps used that was in view, % (Later-Used Recall; ages in turns)",
        (
            *("results", "", *(f"age\n{age}" for age in AGES)),
            *("values", "", "turns\nwith all", "", "newest\ncomplete"),
        ),
        (
            *("result_recall", *(f"result_recall {age}" for age in AGES)),
            *("value_recall", "turns_with_all_values", "newest_complete"),
        ),
        ("result_recall", "value_recall", "turns_with_all_values"),
    ),
    (
        "What it cost, % of full history's: the paper's C, and prompts as providers bill them",
        (
            *("C", "", "OpenAI's\ncache", "", "Anthropic's\ncache", ""),
            *("one\nbreakpoint", "C, dollars\na run"),
        ),
        (
            *("cost_relative", "openai_prompts", "anthropic_prompts"),
            *("anthropic_end_prompts", "cost_dollars"),
        ),
        ("cost_relative", "openai_prompts", "anthropic_prompts"),
    ),
    (
        "Closed loop: prompts and output, % of full history's; per 100 steps",
        (
            *("OpenAI's\ncache", "", "Anthropic's\ncache", ""),
            *("one\nbreakpoint", "calls\nagain", "", "steps\nwithout"),
        ),
        ("openai_loop", "anthropic_loop", "anthropic_end_loop", "refetches", "steps_without"),
        ("openai_loop", "anthropic_loop", "refetches"),
    ),
)
"""Title, columns, figures, and those of them with an interval; the last is of closed loops."""


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
        for title, columns, names, wide in TABLES[: 3 if any(total.loop for total in sums) else 2]:
            rows = [
                (total.case.name, total.case.size, *_cells(known, names, wide))
                for total, known in zip(sums, estimates, strict=True)
            ]
            made.append(Rows(title, ("policy", "budget", *columns), rows, folds="policy"))
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
            paragraphs([*self.notes, f"Made by: {shlex.join(command)}"]),
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
    return Rows("What was sent", columns, rows, folds="policy")


def _differs(found: Difference) -> tuple[str, str, str, str]:
    """A figure, by how much it differs, in what interval, and whether that is better or worse."""
    figure, estimate = found.figure, found.estimate
    by, within = _shown(figure, estimate.value, True), _interval(figure, estimate, True)
    return figure.title, by, within, found.verdict


def _cells(known: Mapping[str, Estimate], names: Sequence[str], wide: Sequence[str]) -> list[str]:
    """Values, and the intervals of the `wide` ones."""
    cells: list[str] = []
    for figure in (BY_NAME[name] for name in names):
        cells.append(_shown(figure, known[figure.name].value))
        if figure.name in wide:
            cells.append(_interval(figure, known[figure.name]))
    return cells


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

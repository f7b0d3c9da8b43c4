"""The report of a replay: its tables, its notes, its figures as JSON and its HTML page.

Long because it has every form of the report.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Final

from contextrender_bridge.evaluation.bootstrap import Bootstrap, Difference, Estimate
from contextrender_bridge.evaluation.cases import Case
from contextrender_bridge.evaluation.compaction_score import ALL_STEPS, CompactionScore
from contextrender_bridge.evaluation.figures import AGES, BY_NAME, Figure
from contextrender_bridge.evaluation.scores import CaseScore, RunScore, totals
from contextrender_bridge.evaluation.tables import Rows, paragraphs, percent_or_dash
from contextrender_bridge.evaluation.verdict import Verdict, verdict_of
from contextrender_bridge.printing import count_of

CLOSED_LOOP: Final = "Closed loop: prompts and output, % of the full history's; per 100 steps"
TABLES: Final = {
    "Later-Used Recall: what later steps used that was visible, % (ages in turns)": {
        "result_recall": "results",
        **{f"result_recall {age}": f"age\n{age}" for age in AGES},
        "value_recall": "values",
        "turns_with_all_values": "turns\nwith all",
        "newest_complete": "newest\ncomplete",
    },
    "Cost, % of the full history's: the paper's C, and prompts as providers bill them": {
        "cost_relative": "C",
        "openai_prompts": "OpenAI's\ncache",
        "anthropic_prompts": "Anthropic's\ncache",
        "anthropic_end_prompts": "one\nbreakpoint",
        "cost_dollars": "C, dollars\nper run",
    },
    CLOSED_LOOP: {
        "openai_loop": "OpenAI's\ncache",
        "anthropic_loop": "Anthropic's\ncache",
        "anthropic_end_loop": "one\nbreakpoint",
        "refetches": "repeated\ncalls",
        "steps_without": "steps with\na miss",
    },
}
"""The table's title, mapped to its figures. Each figure's name is mapped to its column's head."""
WITH_INTERVAL: Final = {
    *("result_recall", "value_recall", "turns_with_all_values"),
    *("cost_relative", "openai_prompts", "anthropic_prompts"),
    *("openai_loop", "anthropic_loop", "refetches"),
}
"""The figures that are shown with an interval."""


@dataclass(frozen=True)
class Report:
    """The results of a replay. `compaction_score` is None if no run was compacted."""

    bootstrap: Bootstrap
    differences: Sequence[Difference]
    compaction_score: CompactionScore | None

    @property
    def verdict(self) -> Verdict:
        """The verdict: which case to recommend, with the billing rule of the runs' provider."""
        return verdict_of(self.bootstrap)

    @cached_property
    def _sums(self) -> list[CaseScore]:
        """The sums of every case over all runs."""
        return totals(self.bootstrap.runs)

    @property
    def tables(self) -> list[Rows]:
        """The tables: what was sent, recall, costs, requested comparisons, and lost values.

        Lost values are values that agents' own compactions lost.
        """
        tables = [_sent_table(self._sums), *self._figure_tables, *self._difference_tables]
        if self.compaction_score:
            tables.append(compaction_table(self.compaction_score))
        return tables

    @property
    def _figure_tables(self) -> Iterator[Rows]:
        """The tables in `TABLES`, with a row for each case.

        The closed loop's table has a row only for a case whose closed loop was replayed. A table
        without rows is left out.
        """
        estimates = [self.bootstrap.estimates(index) for index in range(len(self._sums))]
        for title, heads_by_figure in TABLES.items():
            # Some figures have a second column with their interval. This column has no head.
            columns = ["policy", "budget"]
            for name, head in heads_by_figure.items():
                columns += _figure_cells(name, head, interval="")
            # `total.loop` is None if the closed loop was not replayed for the case.
            rows = [
                _figures_row(total.case, figures, heads_by_figure)
                for total, figures in zip(self._sums, estimates, strict=True)
                if title != CLOSED_LOOP or total.loop
            ]
            if rows:
                yield Rows(title, columns, rows)

    @property
    def _difference_tables(self) -> Iterator[Rows]:
        """The tables of the requested comparisons, one for each pair of cases."""
        by_pair = groupby(self.differences, key=lambda each: (each.case, each.other))
        # The columns without heads have the interval, and `better` or `worse`.
        columns = ("figure", "difference", "", "")
        for (case, other), group in by_pair:
            rows = [
                (
                    each.figure.title,
                    _format_value(each.figure, each.estimate.value, sign="+"),
                    _interval(each.figure, each.estimate, sign="+"),
                    each.verdict,
                )
                for each in group
            ]
            yield Rows(f"{case} less {other}, paired by task", columns, rows)

    @property
    def notes(self) -> list[str]:
        """Notes that explain the tables."""
        runs, sums = self.bootstrap.runs, self._sums
        # All cases replay the same calls, so every case has the counts of the first one.
        calls = max(sums[0].recall.invocations, 1)
        # Milliseconds per call.
        recording = 1000 * sum(run.recording for run in runs) / calls
        embedding = 1000 * sum(run.embedding for run in runs) / calls
        return [
            f"Runs: {len(runs)}. Tasks: {self.bootstrap.tasks}. Token counts do not include "
            "the system prompts\nand current user messages, which add "
            f"{sums[0].tokens_unbudgeted:,} tokens to both counts.",
            "Brackets have 95% intervals over the tasks. docs/evaluation.md defines each figure.",
            f"Recording took {recording:.1f} ms per call and embedding {embedding:.1f} ms, once "
            "for all policies; ms/call does not include them.\n"
            "Other work that policies share is in ms/call of the first policy that needs it.",
            *(
                f"The model of {total.case} was not available at {total.warned_calls:,} calls, so "
                "its figures say little."
                for total in sums
                if total.warned_calls
            ),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the figures of every case, over all runs and for each run, and the `differences`.

        Times are left out, so that the same runs give the same figures.
        """
        runs, cases = self.bootstrap.runs, []
        for index, total in enumerate(self._sums):
            figures = self.bootstrap.estimates(index)
            cases.append(
                {
                    **total.to_json(),
                    "runs": len(runs),
                    "figures": {name: asdict(estimate) for name, estimate in figures.items()},
                    "per_run": [_run_figures(run, run.cases[index]) for run in runs],
                }
            )
        return {
            "format": "contextrender-replay/2",
            "cases": cases,
            "compared": [difference.to_json() for difference in self.differences],
            "compactions": self.compaction_score.to_json() if self.compaction_score else None,
        }

    def parts_of_page(self, curve: str, command: Sequence[str]) -> list[str]:
        """Return the page's parts in HTML: verdict, curve, tables, notes and the command.

        `curve` is an HTML figure, and `command` has the words of the command line.
        """
        return [
            paragraphs([self.verdict.sentence]),
            curve,
            *(table.html for table in self.tables),
            paragraphs([*self.notes, f"Made by: {command[0]} {shlex.join(command[1:])}"]),
        ]


def _run_figures(run: RunScore, score: CaseScore) -> dict[str, Any]:
    """Return the figures of one run under one case, with the fields that identify the run."""
    identity = {"id": run.id, "source": run.source, "model": run.model, "task": run.task}
    figures = score.to_json()
    for name in ("policy", "budget", "parameters"):  # they are written once, with the case
        del figures[name]
    return {**identity, **figures, "calls": score.calls}


def compaction_table(score: CompactionScore) -> Rows:
    """Return a table with a row for the agents' summaries and for the prompts of each budget.

    A row has the share of the steps that had all their earlier values, and the share of values.
    """
    compactions = count_of(score.count, "compaction")
    steps = count_of(score.steps[ALL_STEPS], "step")
    title = f"After {compactions} by the agent: {steps} used earlier values"
    rows = [
        (label, percent_or_dash(score.share(name)), percent_or_dash(score.share_of_values(name)))
        for label, name in score.rows.items()
    ]
    return Rows(title, ("", "share of\nthese steps", "share of\ntheir values"), rows)


def _sent_table(sums: Sequence[CaseScore]) -> Rows:
    """Return a table with a row for each case: what it sent, and what its policy itself used.

    The policy's own figures are the tokens of its model and embedder, and its time per call.
    """
    columns = (
        *("policy", "budget", "calls", "over\nbudget", "tokens\nfull", "tokens\nrendered"),
        *("saved", "policy's\nmodel", "embedded", "ms/call"),
    )
    rows: list[list[str]] = []
    for total in sums:
        recall, policy_usage = total.recall, total.policy_usage
        milliseconds = 1000 * total.seconds / max(recall.invocations, 1)
        rows.append(
            [
                total.case.name,
                total.case.size,
                f"{recall.invocations:,}",
                f"{recall.over_budget:,}",
                f"{recall.tokens_full:,}",
                f"{recall.tokens_rendered:,}",
                percent_or_dash(total.share_saved),
                f"{policy_usage.prompt + policy_usage.output:,}",
                f"{policy_usage.embedded:,}",
                f"{milliseconds:.1f}",
            ]
        )
    return Rows("What was sent", columns, rows)


def _figures_row(case: Case, figures: Mapping[str, Estimate], names: Iterable[str]) -> list[str]:
    """Return a case's row: its policy, its budget, and the cells of the named figures."""
    row = [case.name, case.size]
    for name in names:
        value = _format_value(BY_NAME[name], figures[name].value)
        row += _figure_cells(name, value, _interval(BY_NAME[name], figures[name]))
    return row


def _figure_cells(name: str, value: str, interval: str) -> list[str]:
    """Return the cells of a figure: its value, and its interval if the figure is shown with one."""
    return [value, interval] if name in WITH_INTERVAL else [value]


def _format_value(figure: Figure, value: float | None, sign: str = "") -> str:
    """Return a figure's value as text, or a dash for None.

    If `sign` is "+", positive values are written with a sign, too.
    """
    if value is None:
        return "-"
    if figure.percent:
        return f"{100 * value:{sign}.1f}"
    return f"{value:{sign}.3f}" if "dollars" in figure.name else f"{value:{sign},.0f}"


def _interval(figure: Figure, estimate: Estimate, sign: str = "") -> str:
    """Return an estimate's interval as text, empty if it has none."""
    if estimate.low is None:
        return ""
    low = _format_value(figure, estimate.low, sign)
    high = _format_value(figure, estimate.high, sign)
    return f"[{low},{high}]"

"""The paper's columns from what tasks scored and cost."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gateway import Meter

from engine.costs import NOTHING_USED, Usage
from evaluation.cases import Case

FULL = "full"


@dataclass(frozen=True)
class Outcome:
    """One task under one case."""

    case: Case
    task: str
    score: float
    meter: Meter


@dataclass(frozen=True)
class Row:
    """One case over all tasks.

    `cost` is in dollars by the paper's formula, over tasks whose full history exceeds the budget,
    and with full history's cached fraction; `normalised` is relative to full history on the same
    tasks. Both are None where no task does.
    """

    policy: str
    budget: int
    tasks: int
    over_budget: int
    score: float
    cost: float | None
    normalised: float | None
    calls: int
    model_calls_failed: int
    warnings: int


@dataclass(frozen=True)
class Table:
    """The rows of one run of the benchmark."""

    rows: list[Row]

    def text(self, title: str, model: str, metric: str) -> str:
        """For people."""
        lines = [f"{title}, model {model}"]
        head = f"{'policy':28}{'budget':>8}{'tasks':>7}{'over':>6}{metric:>8}"
        lines.append(f"{head}{'cost $':>10}{'norm.':>8}{'calls':>7}{'failed':>8}")
        lines += [
            f"{row.policy:28}{row.budget:>8}{row.tasks:>7}{row.over_budget:>6}"
            f"{100 * row.score:>8.1f}{_figure(row.cost, 10, 4)}{_figure(row.normalised, 8, 3)}"
            f"{row.calls:>7}{row.model_calls_failed:>8}"
            for row in self.rows
        ]
        return "\n".join(lines)


def table(outcomes: Sequence[Outcome], cases: Sequence[Case]) -> Table:
    """A row for full history and one for each case, under every budget."""
    full = {outcome.task: outcome for outcome in outcomes if outcome.case.policy == FULL}
    rows = []
    for budget in dict.fromkeys(case.budget for case in cases):
        over = {task for task, outcome in full.items() if outcome.meter.longest > budget}
        spent = _spent([full[task] for task in over])
        rho = spent.cached_fraction
        base = spent.paper_cost(rho)
        rows.append(_row(FULL, budget, list(full.values()), over, rho, base))
        for case in cases:
            if case.budget == budget and case.policy != FULL:
                own = [outcome for outcome in outcomes if outcome.case == case]
                rows.append(_row(case.name, budget, own, over, rho, base))
    return Table(rows)


def to_json(made: Table, outcomes: Sequence[Outcome], agent: str, model: str, metric: str) -> str:
    """Everything, task by task."""
    each = [
        {
            "policy": outcome.case.name,
            "budget": outcome.case.budget,
            "task": outcome.task,
            "score": outcome.score,
            **asdict(outcome.meter),
        }
        for outcome in outcomes
    ]
    whole: dict[str, Any] = {
        "format": "contextrender-live/1",
        "agent": agent,
        "model": model,
        "metric": metric,
        "rows": [asdict(row) for row in made.rows],
        "tasks": each,
    }
    return json.dumps(whole, indent=1) + "\n"


def to_csv(made: Table, metric: str) -> str:
    """The rows, with the score under its own name."""
    out = io.StringIO()
    names = list(asdict(made.rows[0]))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([metric if name == "score" else name for name in names])
    writer.writerows([list(asdict(row).values()) for row in made.rows])
    return out.getvalue()


def _row(
    name: str, budget: int, own: Sequence[Outcome], over: set[str], rho: float, base: float
) -> Row:
    cost = _spent([outcome for outcome in own if outcome.task in over]).paper_cost(rho)
    return Row(
        name,
        budget,
        len(own),
        len(over),
        sum(outcome.score for outcome in own) / len(own),
        cost if over else None,
        cost / base if over and base else None,
        sum(outcome.meter.calls for outcome in own),
        sum(len(outcome.meter.failures) for outcome in own),
        sum(outcome.meter.warnings for outcome in own),
    )


def _spent(outcomes: Sequence[Outcome]) -> Usage:
    """The agent's calls and the policy's own."""
    total = NOTHING_USED
    for outcome in outcomes:
        total = total.plus(outcome.meter.sent).plus(outcome.meter.own)
    return total


def _figure(number: float | None, width: int, digits: int) -> str:
    return f"{'-':>{width}}" if number is None else f"{number:>{width}.{digits}f}"

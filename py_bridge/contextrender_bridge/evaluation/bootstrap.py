"""Computes confidence intervals by resampling tasks, not runs, since a task's runs are alike."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Final, Self

import numpy as np

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.evaluation.cases import Case, cases_named
from contextrender_bridge.evaluation.figures import (
    FIGURES,
    Figure,
    Floats,
    Sums,
    columns_of,
    with_derived,
)
from contextrender_bridge.evaluation.scores import RunScore

RESAMPLES: Final = 1_000
LEVEL: Final = 0.95
Pair = tuple[Case, Case]


@dataclass(slots=True, frozen=True)
class Estimate:
    """A figure over all runs, with its 95% interval by resampling the tasks.

    `value` is None if no run has the figure. `low` and `high` are None if fewer than two tasks have
    it.
    """

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, value: Floats, resampled: Floats, by_task: Floats) -> Self:
        """Return the estimate of a figure. A figure that is not known is NaN.

        `value` is the figure over all runs, `resampled` has it for each sample of tasks, and
        `by_task` for each task. There is no interval if fewer than two tasks have the figure,
        because every sample would consist of the same task.
        """
        if not np.isfinite(value):
            return cls(None, None, None)
        finite_values = resampled[np.isfinite(resampled)]
        task_count = np.isfinite(by_task).sum()
        if task_count < 2 or not len(finite_values):
            return cls(float(value), None, None)
        tail_percent = 100 * (1 - LEVEL) / 2
        low, high = np.percentile(finite_values, [tail_percent, 100 - tail_percent])
        return cls(float(value), float(low), float(high))


def span(share: Estimate) -> str:
    """Return a share's interval in percent, such as `[12.0,15.5]`; empty if it has none."""
    if share.low is None or share.high is None:
        return ""
    return f"[{100 * share.low:.1f},{100 * share.high:.1f}]"


def draw_samples(groups: int, resamples: int = RESAMPLES) -> Any:
    """Draw samples of groups, and return how often each sample has each group.

    The array has a row for each sample and a column for each group. A sample draws as many groups
    as there are, with replacement. For fewer than two groups, there are no samples. The samples are
    the same at every call.
    """
    probabilities = np.full(groups, 1 / max(groups, 1))
    sample_count = resamples if groups > 1 else 0
    fixed_seed = 0
    return np.random.default_rng(fixed_seed).multinomial(groups, probabilities, size=sample_count)


def sum_groups(rows: Any, group_of: Any, samples: Any) -> tuple[Any, Any, Any]:
    """Return the sum of all rows, the sum of each sample's rows, and the sum of each group's rows.

    `group_of` has the number of each row's group, and `samples` is the result of `draw_samples`.
    """
    by_group = np.zeros((samples.shape[1], rows.shape[1]))
    np.add.at(by_group, group_of, rows)
    return by_group.sum(axis=0), samples @ by_group, by_group


class Bootstrap:
    """Samples of the tasks of some runs, the same for all cases, so that differences are paired."""

    def __init__(self, runs: Sequence[RunScore], resamples: int = RESAMPLES) -> None:
        """Draw `resamples` samples of the tasks, with replacement."""
        self.runs = runs
        tasks = sorted({run.task for run in runs})
        self.tasks = len(tasks)
        task_numbers = {task: number for number, task in enumerate(tasks)}
        self._task_of = np.array([task_numbers[run.task] for run in runs], dtype=np.int64)
        self._samples = draw_samples(self.tasks, resamples)
        self._sums = cache(self._sum_case)  # every table and every comparison needs them

    @property
    def cases(self) -> list[Case]:
        """The cases of the runs. Functions that take the index of a case number them like this."""
        return [score.case for score in self.runs[0].cases]

    def estimates(self, case: int) -> dict[str, Estimate]:
        """Map the name of every figure to its estimate. `case` is the case's index."""
        total, resampled, by_task = self._sums(case)
        return {
            figure.name: Estimate.of(figure.of(total), figure.of(resampled), figure.of(by_task))
            for figure in FIGURES
        }

    def difference(self, figure: Figure, case: int, other: int) -> Estimate:
        """Return how much higher the figure is under one case than under another.

        The cases are given by index. Both have the same samples, so the difference is paired.
        """
        total, resampled, by_task = (
            figure.of(sums) - figure.of(other_sums)
            for sums, other_sums in zip(self._sums(case), self._sums(other), strict=True)
        )
        return Estimate.of(total, resampled, by_task)

    def _sum_case(self, case: int) -> tuple[Sums, Sums, Sums]:
        """Return the sums of a case: over all runs, over every sample, and over each task's runs.

        `case` is the case's index. Each of the three maps a column's name to its sum or sums.
        """
        # A row has the columns of one run.
        columns_by_run = [columns_of(run, run.cases[case]) for run in self.runs]
        names = list(columns_by_run[0])
        rows = np.array([list(columns.values()) for columns in columns_by_run], np.float64)
        total, resampled, by_task = (
            with_derived(dict(zip(names, sums.T, strict=True)))
            for sums in sum_groups(rows, self._task_of, self._samples)
        )
        return total, resampled, by_task


@dataclass(slots=True, frozen=True)
class Difference:
    """The amount by which a figure is higher under `case` than under `other`."""

    figure: Figure
    case: Case
    other: Case
    estimate: Estimate

    @property
    def verdict(self) -> str:
        """`better` or `worse` for `case`; empty if the interval includes zero."""
        low, high = self.estimate.low, self.estimate.high
        if low is None or high is None or low <= 0 <= high:
            return ""
        is_higher = low > 0
        return "better" if is_higher == self.figure.more_is_better else "worse"

    def to_json(self) -> dict[str, Any]:
        """Return the difference as plain values."""
        return {
            "figure": self.figure.name,
            "case": str(self.case),
            "other": str(self.other),
            "difference": asdict(self.estimate),
        }


def pairs_of(compared: Sequence[Sequence[str]], budgets: Sequence[int]) -> list[Pair]:
    """Return the pairs of cases to compare. Each pair of names gives a pair of cases per budget.

    A name such as `prune@12000` has its own budget, and ignores `budgets`. Raise CommandError if a
    policy is unknown, or if both cases of a pair are the same.
    """
    pairs: list[Pair] = []
    for first_name, second_name in compared:
        first, second = cases_named(first_name, budgets), cases_named(second_name, budgets)
        # If only one name has its own budget, repeat its case for every budget of the other name.
        count = max(len(first), len(second))
        first *= count // len(first)
        second *= count // len(second)
        pairs += zip(first, second, strict=True)
    for case, other in pairs:
        if case == other:
            raise CommandError(f"--compare needs two different cases, not {case} twice.")
    return list(dict.fromkeys(pairs))


def differences(bootstrap: Bootstrap, pairs: Sequence[Pair]) -> Iterator[Difference]:
    """Yield every figure's difference for every pair of cases. `bootstrap` has all these cases."""
    index_of = {case: index for index, case in enumerate(bootstrap.cases)}
    for case, other in pairs:
        for figure in FIGURES:
            estimate = bootstrap.difference(figure, index_of[case], index_of[other])
            yield Difference(figure, case, other, estimate)

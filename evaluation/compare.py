"""Two cases on the same runs: how much their figures differ, and how sure that is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from contextrender_bridge.base.errors import CommandError

from evaluation.bootstrap import Bootstrap, Estimate
from evaluation.cases import Case, cases_named
from evaluation.figures import FIGURES, Figure


@dataclass(slots=True, frozen=True)
class Difference:
    """How much higher a figure is under `case` than under `other`."""

    figure: Figure
    case: Case
    other: Case
    estimate: Estimate

    @property
    def better(self) -> bool | None:
        """Whether `case` is better, worse, or neither by the interval."""
        low, high = self.estimate.low, self.estimate.high
        if low is None or high is None or low <= 0 <= high:
            return None
        return (low > 0) == self.figure.more_is_better

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "figure": self.figure.name,
            "case": str(self.case),
            "other": str(self.other),
            "difference": self.estimate.to_json(),
        }


Pair = tuple[Case, Case]


def pairs_of(
    compared: Sequence[Sequence[str]], budgets: Sequence[int], settings: Sequence[str]
) -> list[Pair]:
    """The cases to compare: under each budget, unless a name has one of its own.

    Raises CommandError for a policy there is not.
    """
    pairs: list[Pair] = []
    for one, two in compared:
        first, second = (cases_named(name, budgets, settings) for name in (one, two))
        if len(first) != len(second):
            first, second = (
                cases * (max(len(first), len(second)) // len(cases)) for cases in (first, second)
            )
        pairs += zip(first, second, strict=True)
    for case, other in pairs:
        if case == other:
            raise CommandError(f"--compare needs two different cases, not {case} twice.")
    return list(dict.fromkeys(pairs))


def differences(
    bootstrap: Bootstrap, cases: Sequence[Case], pairs: Sequence[Pair]
) -> Iterator[Difference]:
    """Every figure's difference for every pair; `cases` are in the order of the scores."""
    number = {case: index for index, case in enumerate(cases)}
    for case, other in pairs:
        for figure in FIGURES:
            estimate = bootstrap.difference(figure, number[case], number[other])
            yield Difference(figure, case, other, estimate)

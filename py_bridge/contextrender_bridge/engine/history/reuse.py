"""Tool-Flow Analysis: which earlier tool results later operations used.

The rules are those of `docs/method.md`, Tool-Flow Analysis. Results and operations are added to the
index in transcript order. It does not need their texts again.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count, repeat
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import GrowableArray
from contextrender_bridge.engine.text.values import extract_values

Ints = NDArray[np.integer[Any]]


@dataclass(slots=True, frozen=True)
class Use:
    """A use of a result (by number) by a later operation (by event), which repeats `values`."""

    operation: int
    result: int
    values: tuple[str, ...]


class ReuseIndex:
    """An index of values: the first result of each, how many results hold it, and its matches.

    `uses` has the uses in transcript order.
    """

    def __init__(self) -> None:
        self.uses: list[Use] = []
        self._ids: dict[str, int] = {}
        self._first = array("l")
        self._holders = array("l")
        self._matches = array("l")
        self._credited: dict[int, set[int]] = {}
        self._scores: list[float] = []
        self._stale: set[int] = set()

    def __len__(self) -> int:
        return len(self._scores)

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return 230 * len(self._ids) + 160 * len(self.uses) + 64 * len(self._scores)

    def results_used_in(self, first: int, stop: int) -> set[int]:
        """Return the results that the operations from event `first` up to `stop` used."""
        return {use.result for use in self.uses_in(first, stop)}

    def uses_in(self, first: int, stop: int) -> list[Use]:
        """Return the uses by the operations from event `first` up to `stop`."""
        start = bisect_left(self.uses, first, key=lambda use: use.operation)
        end = bisect_left(self.uses, stop, lo=start, key=lambda use: use.operation)
        return self.uses[start:end]

    def observe_result(self, text: str) -> set[str]:
        """Add the next tool result, and return its values."""
        result = len(self._scores)
        self._scores.append(0.0)
        values = extract_values(text)
        new = values.difference(self._ids)
        for value in values - new:
            number = self._ids[value]
            self._holders[number] += 1
            if self._matches[number]:
                self._stale.add(self._first[number])
        self._ids.update(zip(new, count(len(self._first)), strict=False))
        self._first.extend(repeat(result, len(new)))
        self._holders.extend(repeat(1, len(new)))
        self._matches.extend(repeat(0, len(new)))
        return values

    def observe_operation(self, operation: int, text: str) -> list[Use]:
        """Credit each value of the next operation to the first earlier result that holds it."""
        by_result: dict[int, list[str]] = {}
        for value in extract_values(text):
            number = self._ids.get(value)
            if number is not None:
                result = self._first[number]
                by_result.setdefault(result, []).append(value)
                self._matches[number] += 1
                self._credited.setdefault(result, set()).add(number)
                self._stale.add(result)
        uses = [
            Use(operation, result, tuple(sorted(by_result[result]))) for result in sorted(by_result)
        ]
        self.uses.extend(uses)
        return uses

    def credit(self, use: Use) -> None:
        """Credit a use that the graph has stored.

        A use of a value that no result holds is corrupted, and is left out.
        """
        if not all(isinstance(value, str) and value in self._ids for value in use.values):
            return
        for value in use.values:
            number = self._ids[value]
            self._matches[number] += 1
            self._credited.setdefault(use.result, set()).add(number)
        self._stale.add(use.result)
        self.uses.append(use)

    def scores(self) -> list[float]:
        """Return c of every result before the next call: the sum of 1/n(value) over its matches.

        The sums are rounded exactly, so they do not depend on the order of the matches.
        """
        for result in self._stale:
            self._scores[result] = fsum(
                self._matches[number] / self._holders[number] for number in self._credited[result]
            )
        self._stale.clear()
        return self._scores

    def holders(self, values: Iterable[str]) -> dict[str, int]:
        """Return n of each value: the number of results so far that contain it."""
        return {value: self._holders[self._ids[value]] for value in values if value in self._ids}

    def first_holder(self, value: str) -> int:
        """Return the first result that holds a value. Some result has to hold it."""
        return int(self._first[self._ids[value]])

    def used_values(self, result: int) -> list[str]:
        """Return the values of a result that operations have matched so far."""
        credited = self._credited.get(result)
        if not credited:
            return []
        return sorted({value for use in self.uses if use.result == result for value in use.values})


class RememberingReuse(ReuseIndex):
    """An index that can return its earlier states, because it knows the values of each result.

    `_result_values` has the values of all results in order, and `_matched_values` and
    `_matched_results` those of the matches of all uses. `_result_ends` and `_use_ends` say where
    those of each result and use end.
    """

    def __init__(self) -> None:
        super().__init__()
        self._result_values, self._result_ends = GrowableArray(np.int32), GrowableArray()
        self._matched_values = GrowableArray(np.int32)
        self._matched_results = GrowableArray(np.int32)
        self._use_ends = GrowableArray()

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return super().nbytes + GrowableArray.bytes_in(self)

    def observe_result(self, text: str) -> set[str]:
        """Add the next tool result, and return its values."""
        values = super().observe_result(text)
        self._result_values.extend([self._ids[value] for value in values])
        self._result_ends.append(len(self._result_values))
        return values

    def up_to(self, events: int, results: int) -> "EarlierReuse":
        """Return the index as it was after the first `events` events and `results` results."""
        self._add_matches()
        value_count = int(self._result_ends.values[results - 1]) if results else 0
        uses = bisect_left(self.uses, events, key=lambda use: use.operation)
        match_count = int(self._use_ends.values[uses - 1]) if uses else 0
        return EarlierReuse(
            self.uses[:uses],
            self._ids,
            np.bincount(self._result_values.values[:value_count], minlength=len(self._first)),
            self._matched_values.values[:match_count],
            self._matched_results.values[:match_count],
            results,
        )

    def _add_matches(self) -> None:
        """Append the matches of the uses since the last call of this method."""
        for use in self.uses[len(self._use_ends) :]:
            self._matched_values.extend([self._ids[value] for value in use.values])
            self._matched_results.extend([use.result] * len(use.values))
            self._use_ends.append(len(self._matched_values))


class EarlierReuse(ReuseIndex):
    """An index as it was earlier, for reading alone.

    `holder_counts` has n of each value. `matched_values` and `matched_results` have the value and
    the result of each match.
    """

    def __init__(
        self,
        uses: list[Use],
        ids: dict[str, int],
        holder_counts: Ints,
        matched_values: Ints,
        matched_results: Ints,
        results: int,
    ) -> None:
        super().__init__()
        self.uses, self._ids = uses, ids
        self._holder_counts = holder_counts
        self._matched_values, self._matched_results = matched_values, matched_results
        self._results = results
        self._cached_scores: list[float] | None = None

    def __len__(self) -> int:
        return self._results

    def scores(self) -> list[float]:
        """Return c of every result, exactly rounded, as `ReuseIndex.scores` does."""
        if self._cached_scores is None:
            self._cached_scores = self._compute_scores()
        return self._cached_scores

    def _compute_scores(self) -> list[float]:
        scores = [0.0] * self._results
        if not len(self._matched_values):
            return scores
        value_count = len(self._holder_counts)
        pairs, times = np.unique(
            self._matched_results.astype(np.int64) * value_count + self._matched_values,
            return_counts=True,
        )
        results, values = np.divmod(pairs, value_count)
        matches = np.bincount(values, times, value_count)
        shares = (matches[values] / self._holder_counts[values]).tolist()
        used_results, first = np.unique(results, return_index=True)
        ends = [*first[1:].tolist(), len(shares)]
        for result, start, end in zip(used_results.tolist(), first.tolist(), ends, strict=True):
            scores[result] = shares[start] if end == start + 1 else fsum(shares[start:end])
        return scores

    def holders(self, values: Iterable[str]) -> dict[str, int]:
        """Return n of each value: the number of results so far that contain it."""
        numbers = {value: self._ids[value] for value in values if value in self._ids}
        return {value: int(self._holder_counts[number]) for value, number in numbers.items()}

    def used_values(self, result: int) -> list[str]:
        """Return the values of a result that operations had matched."""
        return sorted({value for use in self.uses if use.result == result for value in use.values})

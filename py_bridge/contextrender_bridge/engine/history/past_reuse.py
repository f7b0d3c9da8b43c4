"""Earlier states of the reuse index, made from the arrays of the full index.

Tracing thousands of operations again would take seconds.
"""

from bisect import bisect_left
from collections.abc import Iterable
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import GrowableArray
from contextrender_bridge.engine.history.reuse import ReuseIndex, Use

Ints = NDArray[np.integer[Any]]


class RememberingReuse(ReuseIndex):
    """An index that can return its earlier states.

    For this, it records the values of each result, and all matches, in order. A match is one value
    that an operation repeats, with the result that it is credited to. Values are stored as numbers.
    """

    def __init__(self) -> None:
        """Start without values and uses."""
        super().__init__()
        # The values of all results in order, and the index at which the values of each result end.
        self._result_values, self._result_ends = GrowableArray(np.int32), GrowableArray()
        # The matches of all uses in order, and the index at which the matches of each use end.
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
        # Count the uses, matches and values of that time. All arrays are in order.
        use_count = bisect_left(self.uses, events, key=lambda use: use.operation)
        match_count = int(self._use_ends.values[use_count - 1]) if use_count else 0
        value_end = int(self._result_ends.values[results - 1]) if results else 0
        # A result has each of its values once, so this counts the results that contain a value.
        result_counts = np.bincount(
            self._result_values.values[:value_end], minlength=len(self._first_result)
        )
        return EarlierReuse(
            self.uses[:use_count],
            self._ids,
            result_counts,
            self._matched_values.values[:match_count],
            self._matched_results.values[:match_count],
            results,
        )

    def _add_matches(self) -> None:
        """Append the matches of the uses that were added since this method ran the last time."""
        for use in self.uses[len(self._use_ends) :]:
            self._matched_values.extend([self._ids[value] for value in use.values])
            self._matched_results.extend([use.result] * len(use.values))
            self._use_ends.append(len(self._matched_values))


class EarlierReuse(ReuseIndex):
    """An earlier state of an index. Do not add to it."""

    def __init__(
        self,
        uses: list[Use],
        ids: dict[str, int],
        result_counts: Ints,
        matched_values: Ints,
        matched_results: Ints,
        results: int,
    ) -> None:
        """Set up an index of the first `results` results. `ids` maps each value to its number.

        `result_counts` has the number of results that contain each value, by the value's number.
        `matched_values` and `matched_results` have, for each match, the number of the value and the
        result that the match is credited to.
        """
        super().__init__()
        self.uses, self._ids = uses, ids
        self._result_counts = result_counts
        self._matched_values, self._matched_results = matched_values, matched_results
        self._results = results
        self._cached_scores: list[float] | None = None

    def __len__(self) -> int:
        """Return the number of results."""
        return self._results

    def scores(self) -> list[float]:
        """Return the reuse score of every result, as `ReuseIndex.scores` does. Compute it once."""
        if self._cached_scores is None:
            self._cached_scores = self._compute_scores()
        return self._cached_scores

    def _compute_scores(self) -> list[float]:
        """Return the reuse score of every result, 0 for a result without a match.

        The score of a result is the sum of m/n over its matched values. m is the number of matches
        of the value, and n the number of results that contain the value (docs/method.md, Reuse
        score). All m matches are credited to the same result.
        """
        scores = [0.0] * self._results
        if not len(self._matched_values):
            return scores
        value_count = len(self._result_counts)
        # Encode a pair of a result and a matched value as one number. Sorted pairs are then sorted
        # by result.
        pairs, pair_counts = np.unique(
            self._matched_results.astype(np.int64) * value_count + self._matched_values,
            return_counts=True,
        )
        results, values = np.divmod(pairs, value_count)
        # One term m/n for each pair.
        match_counts = np.bincount(values, pair_counts, value_count)
        terms = (match_counts[values] / self._result_counts[values]).tolist()
        # Add up the terms of each result. They follow each other, because the pairs are sorted.
        used_results, starts = np.unique(results, return_index=True)
        ends = [*starts[1:].tolist(), len(terms)]
        for result, start, end in zip(used_results.tolist(), starts.tolist(), ends, strict=True):
            scores[result] = terms[start] if end == start + 1 else fsum(terms[start:end])
        return scores

    def result_counts(self, values: Iterable[str]) -> dict[str, int]:
        """Return the number of results that contained each value. Leave out unknown values."""
        numbers = {value: self._ids[value] for value in values if value in self._ids}
        return {value: int(self._result_counts[number]) for value, number in numbers.items()}

    def used_values(self, result: int) -> list[str]:
        """Return the values of a result that operations had repeated."""
        return sorted({value for use in self.uses if use.result == result for value in use.values})

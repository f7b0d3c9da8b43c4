"""Earlier states of the reuse index, made from the arrays of the full index.

Tracing thousands of operations again would take seconds.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from itertools import count
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
        # Each value gets the next number when it is first looked up.
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
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
        self._result_values.extend([self._numbers[value] for value in values])
        self._result_ends.append(len(self._result_values))
        return values

    def up_to(self, events: int, results: int) -> "EarlierReuse":
        """Return the index as it was after the first `events` events and `results` results."""
        self._add_matches()
        # Count the uses, matches and values of that time. All arrays are in order. An operation has
        # the number of its event.
        use_count = bisect_left(self.uses, events, key=lambda use: use.operation)
        match_count = int(self._use_ends.values[use_count - 1]) if use_count else 0
        value_end = int(self._result_ends.values[results - 1]) if results else 0
        # A result has each of its values once, so this counts the results that contain a value.
        result_counts = np.bincount(
            self._result_values.values[:value_end], minlength=len(self._numbers)
        )
        return EarlierReuse(
            self.uses[:use_count],
            self._numbers,
            result_counts,
            self._matched_values.values[:match_count],
            self._matched_results.values[:match_count],
            results,
        )

    def _add_matches(self) -> None:
        """Append the matches of the uses that were added since this method ran the last time."""
        for use in self.uses[len(self._use_ends) :]:
            self._matched_values.extend([self._numbers[value] for value in use.values])
            self._matched_results.extend([use.result] * len(use.values))
            self._use_ends.append(len(self._matched_values))


class EarlierReuse(ReuseIndex):
    """An earlier state of an index. Do not add to it."""

    def __init__(
        self,
        uses: list[Use],
        numbers: dict[str, int],
        result_counts: Ints,
        matched_values: Ints,
        matched_results: Ints,
        results: int,
    ) -> None:
        """Set up an index of the first `results` results, with the `uses` of that time.

        `numbers` maps each value to its number. `result_counts` has, by this number, how many
        results contain the value. A match is one value that an operation repeats. It is credited to
        one result. `matched_values` and `matched_results` have the value and the result of each
        match.
        """
        super().__init__()
        self.uses, self._numbers = uses, numbers
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

        The score is the sum of m/n over the distinct values whose matches are credited to the
        result. m is the number of matches of the value, and n the number of results that contain
        the value (docs/method.md, Reuse score).
        """
        scores = [0.0] * self._results
        if not len(self._matched_values):
            return scores
        value_count = len(self._result_counts)
        match_counts = np.bincount(self._matched_values, minlength=value_count)
        # Find the distinct pairs of a result and a value that is credited to it. To do so, encode a
        # pair as one number.
        pairs = np.unique(
            self._matched_results.astype(np.int64) * value_count + self._matched_values
        )
        results, values = np.divmod(pairs, value_count)
        terms = match_counts[values] / self._result_counts[values]
        terms_by_result: defaultdict[int, list[float]] = defaultdict(list)
        for result, term in zip(results.tolist(), terms.tolist(), strict=True):
            terms_by_result[result].append(term)
        for result, result_terms in terms_by_result.items():
            scores[result] = fsum(result_terms)
        return scores

    def result_counts(self, values: Iterable[str]) -> dict[str, int]:
        """Return the number of results that contained each value. Leave out unknown values."""
        numbers = {value: self._numbers[value] for value in values if value in self._numbers}
        return {value: int(self._result_counts[number]) for value, number in numbers.items()}

    def used_values(self, result: int) -> list[str]:
        """Return the values of a result that operations had repeated."""
        return sorted({value for use in self.uses if use.result == result for value in use.values})

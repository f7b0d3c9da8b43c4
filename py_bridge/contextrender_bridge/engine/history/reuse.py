"""Tool-Flow Analysis: which earlier tool results later operations really drew on.

The rules are those of `docs/method.md`, Tool-Flow Analysis. Results and operations are shown to
the index in transcript order; it never needs their texts again.
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
    """An operation drew `values` from one earlier result (both by number, in transcript order)."""

    operation: int
    result: int
    values: tuple[str, ...]


class ReuseIndex:
    """Every value's first result, how many results hold it, and how often operations matched it."""

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

    def drawn_in(self, first: int, stop: int) -> set[int]:
        """Return the results that the operations from event `first` up to `stop` drew on."""
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

        A use of a value that no result holds is damaged, and is left out.
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

        Exactly rounded, so it does not depend on the order in which the index was filled.
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
    """An index that remembers which values each result holds, and so how it was earlier."""

    def __init__(self) -> None:
        super().__init__()
        self._values_held, self._held_until = GrowableArray(np.int32), GrowableArray()
        self._matched, self._drawn_on = GrowableArray(np.int32), GrowableArray(np.int32)
        self._matched_until = GrowableArray()

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return super().nbytes + GrowableArray.bytes_in(self)

    def observe_result(self, text: str) -> set[str]:
        """Add the next tool result, and return its values."""
        values = super().observe_result(text)
        self._values_held.extend([self._ids[value] for value in values])
        self._held_until.append(len(self._values_held))
        return values

    def until(self, events: int, results: int) -> "EarlierReuse":
        """Return the index as it was after so many events and results."""
        self._note_matches()
        held_count = int(self._held_until.values[results - 1]) if results else 0
        uses = bisect_left(self.uses, events, key=lambda use: use.operation)
        matched = int(self._matched_until.values[uses - 1]) if uses else 0
        return EarlierReuse(
            self.uses[:uses],
            self._ids,
            np.bincount(self._values_held.values[:held_count], minlength=len(self._first)),
            self._matched.values[:matched],
            self._drawn_on.values[:matched],
            results,
        )

    def _note_matches(self) -> None:
        """Append the matches of the uses that came since the last call of this."""
        for use in self.uses[len(self._matched_until) :]:
            self._matched.extend([self._ids[value] for value in use.values])
            self._drawn_on.extend([use.result] * len(use.values))
            self._matched_until.append(len(self._matched))


class EarlierReuse(ReuseIndex):
    """An index as it was earlier, for reading alone.

    `holders` are by value, `matched` and `drawn_on` the value and result of each match so far.
    """

    def __init__(
        self,
        uses: list[Use],
        ids: dict[str, int],
        holders: Ints,
        matched: Ints,
        drawn_on: Ints,
        results: int,
    ) -> None:
        super().__init__()
        self.uses, self._ids = uses, ids
        self._held_by, self._matched, self._drawn_on = holders, matched, drawn_on
        self._results = results
        self._known_scores: list[float] | None = None

    def __len__(self) -> int:
        return self._results

    def scores(self) -> list[float]:
        """Return c of every result, exactly rounded, as `ReuseIndex.scores` does."""
        if self._known_scores is None:
            self._known_scores = self._summed()
        return self._known_scores

    def _summed(self) -> list[float]:
        scores = [0.0] * self._results
        if not len(self._matched):
            return scores
        many = len(self._held_by)
        pairs, times = np.unique(
            self._drawn_on.astype(np.int64) * many + self._matched, return_counts=True
        )
        results, values = np.divmod(pairs, many)
        matches = np.bincount(values, times, many)
        shares = (matches[values] / self._held_by[values]).tolist()
        drawn_on, first = np.unique(results, return_index=True)
        ends = [*first[1:].tolist(), len(shares)]
        for result, start, end in zip(drawn_on.tolist(), first.tolist(), ends, strict=True):
            scores[result] = shares[start] if end == start + 1 else fsum(shares[start:end])
        return scores

    def holders(self, values: Iterable[str]) -> dict[str, int]:
        """Return n of each value: the number of results so far that contain it."""
        numbers = {value: self._ids[value] for value in values if value in self._ids}
        return {value: int(self._held_by[number]) for value, number in numbers.items()}

    def used_values(self, result: int) -> list[str]:
        """Return the values of a result that operations had matched."""
        return sorted({value for use in self.uses if use.result == result for value in use.values})

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

from engine.text.values import extract_values


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
        """The results that operations drew on, those from event `first` up to `stop`."""
        start = bisect_left(self.uses, first, key=lambda use: use.operation)
        end = bisect_left(self.uses, stop, lo=start, key=lambda use: use.operation)
        return {use.result for use in self.uses[start:end]}

    def observe_result(self, text: str) -> set[str]:
        """Adds the next tool result; the values it holds."""
        result = len(self._scores)
        self._scores.append(0.0)
        values = extract_values(text)
        new = values.difference(self._ids)
        for value in values - new:
            known = self._ids[value]
            self._holders[known] += 1
            if self._matches[known]:
                self._stale.add(self._first[known])
        self._ids.update(zip(new, count(len(self._first)), strict=False))
        self._first.extend(repeat(result, len(new)))
        self._holders.extend(repeat(1, len(new)))
        self._matches.extend(repeat(0, len(new)))
        return values

    def observe_operation(self, operation: int, text: str) -> list[Use]:
        """Credits the next operation's values to the first earlier result that holds each."""
        by_result: dict[int, list[str]] = {}
        for value in extract_values(text):
            known = self._ids.get(value)
            if known is not None:
                result = self._first[known]
                by_result.setdefault(result, []).append(value)
                self._matches[known] += 1
                self._credited.setdefault(result, set()).add(known)
                self._stale.add(result)
        uses = [
            Use(operation, result, tuple(sorted(by_result[result]))) for result in sorted(by_result)
        ]
        self.uses.extend(uses)
        return uses

    def credit(self, use: Use) -> None:
        """Credits a use found before, as the graph keeps it; one of a value that no result holds
        was damaged there, and is left out."""
        if not all(isinstance(value, str) and value in self._ids for value in use.values):
            return
        for value in use.values:
            known = self._ids[value]
            self._matches[known] += 1
            self._credited.setdefault(use.result, set()).add(known)
        self._stale.add(use.result)
        self.uses.append(use)

    def scores(self) -> list[float]:
        """c of every result before the next invocation: the sum over its matches of 1/n(value).

        Exactly rounded, so it does not depend on the order in which the index was filled.
        """
        for result in self._stale:
            self._scores[result] = fsum(
                self._matches[known] / self._holders[known] for known in self._credited[result]
            )
        self._stale.clear()
        return self._scores

    def holders(self, values: Iterable[str]) -> dict[str, int]:
        """n of each value: how many of the results so far contain it."""
        return {value: self._holders[self._ids[value]] for value in values if value in self._ids}

    def first_holder(self, value: str) -> int:
        """The first result that holds a value which some result does."""
        return int(self._first[self._ids[value]])

    def used_values(self, result: int) -> list[str]:
        """The values of a result that operations have matched so far."""
        credited = self._credited.get(result)
        if not credited:
            return []
        return sorted({value for use in self.uses if use.result == result for value in use.values})

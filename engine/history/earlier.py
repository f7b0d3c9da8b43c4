"""A history as it was after some of its messages, taken from the whole one without its texts.

Tracing anew what a thousand results hold takes a second; here it is cut off arrays.
"""

from bisect import bisect_left
from collections.abc import Iterable
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.history.growing import Growing
from engine.history.history import History, Results
from engine.history.reuse import ReuseIndex, Use

Ints = NDArray[np.integer[Any]]


class RememberingReuse(ReuseIndex):
    """An index that remembers which values each result holds, and so how it was earlier."""

    def __init__(self) -> None:
        super().__init__()
        self._held, self._held_until = Growing(np.int32), Growing()
        self._matched, self._drawn_on = Growing(np.int32), Growing(np.int32)
        self._matched_until = Growing()

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return super().nbytes + Growing.bytes_in(self)

    def observe_result(self, text: str) -> set[str]:
        """Adds the next tool result."""
        values = super().observe_result(text)
        self._held.extend([self._ids[value] for value in values])
        self._held_until.append(len(self._held))
        return values

    def until(self, events: int, results: int) -> "EarlierReuse":
        """The index as it was after so many events and results."""
        self._note_matches()
        held = int(self._held_until.values[results - 1]) if results else 0
        uses = bisect_left(self.uses, events, key=lambda use: use.operation)
        matched = int(self._matched_until.values[uses - 1]) if uses else 0
        return EarlierReuse(
            self.uses[:uses],
            self._ids,
            np.bincount(self._held.values[:held], minlength=len(self._first)),
            self._matched.values[:matched],
            self._drawn_on.values[:matched],
            results,
        )

    def _note_matches(self) -> None:
        """Notes the values of what was used since it was asked last."""
        for use in self.uses[len(self._matched_until) :]:
            self._matched.extend([self._ids[value] for value in use.values])
            self._drawn_on.extend([use.result] * len(use.values))
            self._matched_until.append(len(self._matched))


class EarlierReuse(ReuseIndex):
    """How an index was earlier, for reading alone.

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
        """c of every result, exactly rounded: as `ReuseIndex.scores` gives it."""
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
        """n of each value: how many of the results so far contain it."""
        numbers = {value: self._ids[value] for value in values if value in self._ids}
        return {value: int(self._held_by[number]) for value, number in numbers.items()}

    def used_values(self, result: int) -> list[str]:
        """The values of a result that operations had matched."""
        return sorted({value for use in self.uses if use.result == result for value in use.values})


def earlier_history(whole: History, messages: int) -> History:
    """A history of which all is in memory, as it was after its first `messages` messages.

    It takes no more messages. Its reuse must be a `RememberingReuse`.
    """
    past = History()
    events = whole.events_before(messages)
    count = bisect_left(whole.results.message, messages)
    for name in ("roles", "messages", "digests", "turns", "text_tokens", "totals", "first_events"):
        setattr(past, name, getattr(whole, name)[:messages])
    past.times = whole.times[:messages]
    past.spoken = whole.spoken[: bisect_left(whole.spoken, messages)]
    past.results = Results(
        *(getattr(whole.results, name)[:count] for name in Results.__dataclass_fields__)
    )
    assert isinstance(whole.reuse, RememberingReuse)
    past.reuse = whole.reuse.until(events, count)
    past.vectors = whole.vectors.first(count)
    past.events = events
    past.assistants = past.roles.count("assistant")
    past.total_tokens = past.totals[-1] if messages else 0
    past.leading_system = min(whole.leading_system, messages)
    past.first_user = whole.first_user if whole.first_user < messages else -1
    past.last_user = _last(past.roles, "user")
    past.last_assistant = _last(past.roles, "assistant")
    past.names = whole.names
    past.followed = whole.followed
    past._result_at = {message: number for number, message in enumerate(past.results.message)}
    return past


def _last(roles: list[str], role: str) -> int:
    """The position of the last message of a role, or -1."""
    return next((m for m in range(len(roles) - 1, -1, -1) if roles[m] == role), -1)

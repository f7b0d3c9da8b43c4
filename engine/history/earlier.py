"""A history as it was after some of its messages, taken from the whole one without its texts.

Tracing anew what a thousand results hold takes a second; here it is cut off arrays.
"""

from array import array
from bisect import bisect_left

import numpy as np

from engine.history.growing import Growing
from engine.history.history import History, Results
from engine.history.reuse import ReuseIndex


class RememberingReuse(ReuseIndex):
    """An index that remembers which values each result holds, and so how it was earlier."""

    def __init__(self) -> None:
        super().__init__()
        self._held, self._held_until = Growing(np.int32), Growing()

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return super().nbytes + self._held.nbytes + self._held_until.nbytes

    def observe_result(self, text: str) -> set[str]:
        """Adds the next tool result."""
        values = super().observe_result(text)
        self._held.extend([self._ids[value] for value in values])
        self._held_until.append(len(self._held))
        return values

    def until(self, events: int, results: int) -> ReuseIndex:
        """The index as it was after so many events and results. It is for reading alone."""
        held = int(self._held_until.values[results - 1]) if results else 0
        known = len(self._first)
        past = ReuseIndex()
        past._ids, past._first = self._ids, self._first
        past._holders = array("l", np.bincount(self._held.values[:held], minlength=known).tolist())
        past._matches = array("l", bytes(past._first.itemsize * known))
        past._scores = [0.0] * results
        for use in self.uses[: bisect_left(self.uses, events, key=lambda use: use.operation)]:
            past.credit(use)
        return past


def earlier_history(whole: History, messages: int) -> History:
    """A history of which all is in memory, as it was after its first `messages` messages.

    It takes no more messages. Its reuse must be a `RememberingReuse`.
    """
    past = History()
    events = whole.first_events[messages] if messages < len(whole) else whole.events
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

"""A history and its tracking as they were after some of the messages, taken from the whole.

Reading anew what thousands of results hold takes seconds; here it is cut off arrays, and only what
changes later is noted.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import GrowableArray
from contextrender_bridge.engine.history.history import History, ResultArrays
from contextrender_bridge.engine.history.reuse import RememberingReuse
from contextrender_bridge.engine.history.text_index import words_of
from contextrender_bridge.engine.history.token_tracking import (
    MOST_CHARACTERS,
    Originals,
    Tracking,
    words_in_turn,
)
from contextrender_bridge.engine.text.tokens import TokenCounter, content_text
from contextrender_bridge.engine.text.transcript import Json
from contextrender_bridge.engine.text.values import Ids

if TYPE_CHECKING:
    from contextrender_bridge.engine.history.history import History


_NEVER: Final = 2**30
_BY_RESULT: Final = ("introduced", "answered")
_BY_SEGMENT: Final = ("segment_end", "segment_tokens", "segment_result")


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
    past.results = ResultArrays(
        *(getattr(whole.results, name)[:count] for name in ResultArrays.__dataclass_fields__)
    )
    assert isinstance(whole.reuse, RememberingReuse)
    past.reuse = whole.reuse.until(events, count)
    past.vectors = whole.vectors.first(count)
    past.events = events
    past.assistants = past.roles.count("assistant")
    past.turn = past.assistants + 1
    past.total_tokens = past.totals[-1] if messages else 0
    past.leading_system = min(whole.leading_system, messages)
    past.first_user = whole.first_user if whole.first_user < messages else -1
    past.last_user = _last(past.roles, messages, "user")
    past.last_assistant = _last(past.roles, messages, "assistant")
    past.names = whole.names
    past.followed = whole.followed
    past._result_at = {message: number for number, message in enumerate(past.results.message)}
    return past


class RememberingTracking(Tracking):
    """Tracking that remembers how it was after each of its messages."""

    def __init__(self) -> None:
        super().__init__()
        self._position = 0
        self._results_at: list[int] = []
        self._tokens_at, self._events_at = GrowableArray(), GrowableArray()
        self._used_at = GrowableArray(np.int32)
        self._own_turn = GrowableArray()
        self._said_at, self._said, self._said_turn = (
            GrowableArray(),
            GrowableArray(np.int32),
            GrowableArray(),
        )

    def at(
        self, history: "History", messages: int, originals: Originals, counter: TokenCounter
    ) -> Tracking:
        """Tracking of the first `messages` messages of a history, the one followed or an earlier
        one of it; for reading alone, until the next call."""
        self.catch_up(history, messages, originals, counter)
        return self if self.messages == messages else self._before(history, messages, originals)

    def _before(self, history: "History", messages: int, originals: Originals) -> Tracking:
        then = Tracking()
        then.messages = messages
        results = bisect_left(self._results_at, messages)
        segments = int(self.first_segment.values[results])
        tokens, events = (
            int(counts.values[messages - 1]) if messages else 0
            for counts in (self._tokens_at, self._events_at)
        )
        for name in _BY_RESULT:
            setattr(then, name, getattr(self, name).first(results))
        for name in _BY_SEGMENT:
            setattr(then, name, getattr(self, name).first(segments))
        then.first_segment = self.first_segment.first(results + 1)
        then.segment_ids_at = self.segment_ids_at.first(segments + 1)
        then.segment_ids = self.segment_ids.first(int(self.segment_ids_at.values[segments]))
        then.words = self.words.first(results, segments)
        then.kinds = self.kinds.first(tokens)
        then._ids, then._remembered = self._ids, self._remembered
        then._owner = self._owner.first(tokens)
        then._event_ids_at = self._event_ids_at.first(events + 1)
        then._event_ids = self._event_ids.first(int(self._event_ids_at.values[events]))
        then.used = _growing(self._used_at.values[:tokens] < messages)
        then.uses, then.last_use = self._uses_before(messages, results)
        then.task, then.question, then.latest = _words(history, messages, originals)
        return then

    def _uses_before(self, messages: int, results: int) -> tuple[GrowableArray, GrowableArray]:
        said = int(np.searchsorted(self._said_at.values, messages))
        of = self._said.values[:said]
        last = self._own_turn.values[:results].copy()
        last[of] = self._said_turn.values[:said]  # of several the last one stays: the latest
        return _growing(np.bincount(of, minlength=results)), _growing(last)

    def _add(self, history: "History", position: int, message: Json, counter: TokenCounter) -> None:
        self._position = position
        if history.roles[position] == "tool":
            self._results_at.append(position)
            self._own_turn.append(history.turn_of(history.result_at(position)))
        super()._add(history, position, message, counter)
        self._used_at.extend([_NEVER] * (self.tokens - len(self._used_at)))
        self._tokens_at.append(self.tokens)
        self._events_at.append(self.events)

    def _note_use(self, ids: Ids) -> None:
        fresh = ids[~self.used.values[ids]]
        super()._note_use(ids)
        self._used_at.values[fresh] = self._position

    def _note_turn(self, result: int, turn: int) -> None:
        super()._note_turn(result, turn)
        self._said_at.append(self._position)
        self._said.append(result)
        self._said_turn.append(turn)


def _words(
    history: "History", messages: int, originals: Originals
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Words of the task, the latest question and the latest turn, as `Tracking` has them."""
    user, assistant = (_last(history.roles, messages, role) for role in ("user", "assistant"))
    task = words_of(_text(history.first_user, originals)) if user >= 0 else ()
    question = words_of(_text(user, originals)) if user >= 0 else ()
    if assistant < 0:
        return task, question, ()
    (said,) = originals(assistant, assistant + 1)
    text = content_text(said.get("content"))[:MOST_CHARACTERS]
    return task, question, words_in_turn(text, said.get("tool_calls") or ())


def _text(position: int, originals: Originals) -> str:
    (message,) = originals(position, position + 1)
    return content_text(message.get("content"))[:MOST_CHARACTERS]


def _last(roles: Sequence[str], messages: int, role: str) -> int:
    """The position of the last message of a role, or -1."""
    return next((p for p in range(messages - 1, -1, -1) if roles[p] == role), -1)


def _growing(values: NDArray[np.generic]) -> GrowableArray:
    found = GrowableArray(values.dtype)
    found.extend(values)
    return found

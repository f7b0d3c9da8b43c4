"""Earlier states of a history and of its tracking, cut from the arrays of the full history.

Reading the texts of thousands of results again would take seconds. So most arrays are cut, and only
what later messages change is recorded with its position.
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
_BY_RESULT: Final = ("owned_tokens", "previous_size")
_BY_SEGMENT: Final = ("segment_end", "segment_tokens", "segment_result")


def earlier_history(full_history: History, messages: int) -> History:
    """Return the history as it was after its first `messages` messages, for reading alone.

    All texts of `full_history` must be in memory, and its reuse must be a `RememberingReuse`.
    """
    past = History()
    events = full_history.events_before(messages)
    count = bisect_left(full_history.results.message, messages)
    for name in ("roles", "messages", "digests", "turns", "text_tokens", "totals", "first_events"):
        setattr(past, name, getattr(full_history, name)[:messages])
    past.times = full_history.times[:messages]
    past.text_messages = full_history.text_messages[
        : bisect_left(full_history.text_messages, messages)
    ]
    past.results = ResultArrays(
        *(getattr(full_history.results, name)[:count] for name in ResultArrays.__dataclass_fields__)
    )
    assert isinstance(full_history.reuse, RememberingReuse)
    past.reuse = full_history.reuse.up_to(events, count)
    past.vectors = full_history.vectors.first(count)
    past.events = events
    past.assistants = past.roles.count("assistant")
    past.turn = past.assistants + 1
    past.total_tokens = past.totals[-1] if messages else 0
    past.leading_system = min(full_history.leading_system, messages)
    past.first_user = full_history.first_user if full_history.first_user < messages else -1
    past.last_user = _last(past.roles, messages, "user")
    past.last_assistant = _last(past.roles, messages, "assistant")
    past.names = full_history.names
    past.replay_tracking = full_history.replay_tracking
    past._result_at = {message: number for number, message in enumerate(past.results.message)}
    return past


class RememberingTracking(Tracking):
    """A tracking that can return its state after each of its messages.

    `_first_use` has, for each token, the message that used it first. For each use of a result,
    `_use_at` has the message, `_used_result` the result and `_use_turn` the turn.
    """

    def __init__(self) -> None:
        super().__init__()
        self._position = 0
        self._results_at: list[int] = []
        self._tokens_at, self._events_at = GrowableArray(), GrowableArray()
        self._first_use = GrowableArray(np.int32)
        self._result_turn = GrowableArray()
        self._use_at = GrowableArray()
        self._used_result = GrowableArray(np.int32)
        self._use_turn = GrowableArray()

    def at(
        self, history: "History", messages: int, originals: Originals, counter: TokenCounter
    ) -> Tracking:
        """Return the tracking of a history's first `messages` messages, for reading alone.

        The history is the tracked one or an earlier state of it. The returned tracking is valid
        until the next call of this method.
        """
        self.catch_up(history, messages, originals, counter)
        return (
            self if self.message_count == messages else self._before(history, messages, originals)
        )

    def _before(self, history: "History", messages: int, originals: Originals) -> Tracking:
        """Return an earlier tracking, cut from the arrays of this one."""
        then = Tracking()
        then.message_count = messages
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
        then._ids, then._ids_by_text, then.files = self._ids, self._ids_by_text, self.files
        then._owner = self._owner.first(tokens)
        then._event_ids_at = self._event_ids_at.first(events + 1)
        then._event_ids = self._event_ids.first(int(self._event_ids_at.values[events]))
        then.is_used = _growable(self._first_use.values[:tokens] < messages)
        then.uses, then.last_use = self._uses_before(messages, results)
        then.task, then.question, then.latest = _words(history, messages, originals)
        return then

    def _uses_before(self, messages: int, results: int) -> tuple[GrowableArray, GrowableArray]:
        """Return `uses` and `last_use` of the first results, as they were at an earlier message."""
        count = int(np.searchsorted(self._use_at.values, messages))
        used_results = self._used_result.values[:count]
        last_use = self._result_turn.values[:results].copy()
        last_use[used_results] = self._use_turn.values[:count]  # the latest of several uses wins
        return _growable(np.bincount(used_results, minlength=results)), _growable(last_use)

    def _add(self, history: "History", position: int, message: Json, counter: TokenCounter) -> None:
        self._position = position
        if history.roles[position] == "tool":
            self._results_at.append(position)
            self._result_turn.append(history.turn_of(history.result_at(position)))
        super()._add(history, position, message, counter)
        self._first_use.extend([_NEVER] * (self.token_count - len(self._first_use)))
        self._tokens_at.append(self.token_count)
        self._events_at.append(self.event_count)

    def _add_token_uses(self, ids: Ids) -> None:
        unused = ids[~self.is_used.values[ids]]
        super()._add_token_uses(ids)
        self._first_use.values[unused] = self._position

    def _add_result_use(self, result: int, turn: int) -> None:
        super()._add_result_use(result, turn)
        self._use_at.append(self._position)
        self._used_result.append(result)
        self._use_turn.append(turn)


def _words(
    history: "History", messages: int, originals: Originals
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the words of the task, the latest question and the latest turn, as in `Tracking`."""
    user, assistant = (_last(history.roles, messages, role) for role in ("user", "assistant"))
    task = words_of(_text(history.first_user, originals)) if user >= 0 else ()
    question = words_of(_text(user, originals)) if user >= 0 else ()
    if assistant < 0:
        return task, question, ()
    (answer,) = originals(assistant, assistant + 1)
    text = content_text(answer.get("content"))[:MOST_CHARACTERS]
    return task, question, words_in_turn(text, answer.get("tool_calls") or ())


def _text(position: int, originals: Originals) -> str:
    (message,) = originals(position, position + 1)
    return content_text(message.get("content"))[:MOST_CHARACTERS]


def _last(roles: Sequence[str], messages: int, role: str) -> int:
    """Return the position of the last message of a role, or -1."""
    return next((p for p in range(messages - 1, -1, -1) if roles[p] == role), -1)


def _growable(values: NDArray[np.generic]) -> GrowableArray:
    array = GrowableArray(values.dtype)
    array.extend(values)
    return array

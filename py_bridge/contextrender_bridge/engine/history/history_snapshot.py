"""Earlier states of a history and of its tracking, cut from the arrays of the full history.

Reading the texts of thousands of results again would take seconds. So most arrays are cut, and only
what later messages change is recorded with its position.
"""

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import GrowableArray
from contextrender_bridge.engine.history.history import History, ResultArrays
from contextrender_bridge.engine.history.past_reuse import RememberingReuse
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
"""The position of the first use of a token that was not used."""

_BY_MESSAGE: Final = (
    *("roles", "messages", "digests", "turns", "text_tokens", "totals", "first_events", "times"),
)
"""The fields of a history that have one entry for each message."""

_BY_RESULT: Final = ("owned_counts", "previous_sizes")
_BY_SEGMENT: Final = ("segment_end", "segment_tokens", "segment_result")
"""The arrays of a tracking that have one entry for each result, and for each segment."""


def earlier_history(full_history: History, messages: int) -> History:
    """Return the history as it was after its first `messages` messages. Do not add to it.

    All texts of `full_history` must be in memory, and its reuse must be a `RememberingReuse`.
    """
    earlier = History()
    event_count = full_history.events_before(messages)
    result_count = full_history.results_before(messages)
    text_count = bisect_left(full_history.text_messages, messages)
    for field in _BY_MESSAGE:
        setattr(earlier, field, getattr(full_history, field)[:messages])
    earlier.text_messages = full_history.text_messages[:text_count]
    for field in ResultArrays.__dataclass_fields__:
        setattr(earlier.results, field, getattr(full_history.results, field)[:result_count])
    assert isinstance(full_history.reuse, RememberingReuse)
    earlier.reuse = full_history.reuse.up_to(event_count, result_count)
    earlier.vectors = full_history.vectors.first(result_count)
    earlier.events = event_count
    earlier.assistants = earlier.roles.count("assistant")
    earlier.turn = earlier.assistants + 1
    earlier.total_tokens = earlier.totals[-1] if messages else 0
    earlier.leading_system = min(full_history.leading_system, messages)
    earlier.first_user = full_history.first_user if full_history.first_user < messages else -1
    earlier.last_user = earlier.latest_of("user", messages)
    earlier.last_assistant = earlier.latest_of("assistant", messages)
    earlier.names, earlier.files = full_history.names, full_history.files
    earlier.replay_tracking = full_history.replay_tracking
    earlier._result_at = {message: number for number, message in enumerate(earlier.results.message)}
    return earlier


class RememberingTracking(Tracking):
    """A tracking that can return its state after each of its messages.

    Most of its arrays only grow, so an earlier state is their beginning. What later messages change
    is recorded beside them.
    """

    def __init__(self) -> None:
        """Start a tracking without messages."""
        super().__init__()
        self._position = 0  # of the message that is being added
        # After each message:
        self._token_counts, self._event_counts = GrowableArray(), GrowableArray()
        # Each result:
        self._result_positions: list[int] = []  # its message
        self._result_turn = GrowableArray()
        # Each token:
        self._first_use = GrowableArray(np.int32)  # the message that used it first
        # Each use of a result by an assistant message, in order:
        self._use_position = GrowableArray()  # the message
        self._used_result = GrowableArray(np.int32)
        self._use_turn = GrowableArray()

    def at(
        self, history: "History", messages: int, originals: Originals, counter: TokenCounter
    ) -> Tracking:
        """Return the tracking of a history's first `messages` messages. Do not add to it.

        The history is the tracked one or an earlier state of it. The returned tracking is valid
        until the next call of this method.
        """
        self.catch_up(history, messages, originals, counter)
        return (
            self if self.message_count == messages else self._before(history, messages, originals)
        )

    def _before(self, history: "History", messages: int, originals: Originals) -> Tracking:
        """Return the tracking of the first `messages` messages, cut from the arrays of this one."""
        earlier = Tracking()
        earlier.message_count = messages
        result_count = bisect_left(self._result_positions, messages)
        segment_count = int(self.first_segment.values[result_count])
        token_count = int(self._token_counts.values[messages - 1]) if messages else 0
        event_count = int(self._event_counts.values[messages - 1]) if messages else 0
        for field in _BY_RESULT:
            setattr(earlier, field, getattr(self, field).first(result_count))
        for field in _BY_SEGMENT:
            setattr(earlier, field, getattr(self, field).first(segment_count))
        earlier.first_segment = self.first_segment.first(result_count + 1)
        earlier.segment_ids_at = self.segment_ids_at.first(segment_count + 1)
        earlier.segment_ids = self.segment_ids.first(int(self.segment_ids_at.values[segment_count]))
        earlier.word_index = self.word_index.first(result_count, segment_count)
        earlier.token_kinds = self.token_kinds.first(token_count)
        earlier._ids, earlier._ids_by_text = self._ids, self._ids_by_text
        earlier._owners = self._owners.first(token_count)
        earlier._event_ids_at = self._event_ids_at.first(event_count + 1)
        earlier._event_ids = self._event_ids.first(int(self._event_ids_at.values[event_count]))
        # A token was used then if the first message that used it is one of these messages.
        earlier.is_used = _growable(self._first_use.values[:token_count] < messages)
        earlier.use_counts, earlier.last_use_turns = self._uses_before(messages, result_count)
        earlier.task_words, earlier.user_words, earlier.answer_words = _latest_words(
            history, messages, originals
        )
        return earlier

    def _uses_before(self, messages: int, results: int) -> tuple[GrowableArray, GrowableArray]:
        """Return `use_counts` and `last_use_turns` of the first results.

        They are as of the first `messages` messages. The last use of a result that is never used is
        its own turn.
        """
        use_count = int(np.searchsorted(self._use_position.values, messages))
        used_results = self._used_result.values[:use_count]
        last_use = self._result_turn.values[:results].copy()
        use_turns = self._use_turn.values[:use_count]
        last_use[used_results] = use_turns  # the latest of several uses wins
        return _growable(np.bincount(used_results, minlength=results)), _growable(last_use)

    def _add(self, history: "History", position: int, message: Json, counter: TokenCounter) -> None:
        """Add `message`, and record what is needed to return to the state after it."""
        self._position = position
        if history.is_result(position):
            self._result_positions.append(position)
            self._result_turn.append(history.turn_of(history.result_at(position)))
        super()._add(history, position, message, counter)
        self._first_use.extend([_NEVER] * (self.token_count - len(self._first_use)))
        self._token_counts.append(self.token_count)
        self._event_counts.append(self.event_count)

    def _add_token_uses(self, ids: Ids) -> None:
        unused = ids[~self.is_used.values[ids]]
        super()._add_token_uses(ids)
        self._first_use.values[unused] = self._position

    def _add_result_use(self, result: int, turn: int) -> None:
        """Count the use, and record it for `_uses_before`."""
        super()._add_result_use(result, turn)
        self._use_position.append(self._position)
        self._used_result.append(result)
        self._use_turn.append(turn)


def _latest_words(
    history: "History", messages: int, originals: Originals
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the `task_words`, `user_words` and `answer_words` of a tracking.

    They are the words of the first user message, and of the latest user message and the latest
    assistant message among the first `messages` messages; empty if there is no such message.
    """
    last_user = history.latest_of("user", messages)
    last_assistant = history.latest_of("assistant", messages)
    task_words = words_of(_text(history.first_user, originals)) if last_user >= 0 else ()
    user_words = words_of(_text(last_user, originals)) if last_user >= 0 else ()
    if last_assistant < 0:
        return task_words, user_words, ()
    (answer,) = originals(last_assistant, last_assistant + 1)
    text = content_text(answer.get("content"))[:MOST_CHARACTERS]
    return task_words, user_words, words_in_turn(text, answer.get("tool_calls") or ())


def _text(position: int, originals: Originals) -> str:
    """Return the tracked part of a message's text."""
    (message,) = originals(position, position + 1)
    return content_text(message.get("content"))[:MOST_CHARACTERS]


def _growable(values: NDArray[np.generic]) -> GrowableArray:
    """Return a growable array of these values."""
    array = GrowableArray(values.dtype)
    array.extend(values)
    return array

"""Earlier states of a history and of its tracking, made from the arrays of the full history.

Reading the texts of thousands of results again would take seconds. Most arrays only grow, so an
earlier state is their beginning. Changes by later messages are recorded with their positions.
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
from contextrender_bridge.engine.history.tracked_tokens import Ids
from contextrender_bridge.engine.text.tokens import TokenCounter, content_text
from contextrender_bridge.engine.text.transcript import Json

if TYPE_CHECKING:
    from contextrender_bridge.engine.history.history import History


_NEVER: Final = 2**30
"""The position of the first use of a token that was not used."""

_BY_MESSAGE: Final = (
    *("roles", "messages", "digests", "turns", "text_tokens", "totals", "first_events", "times"),
)
"""The fields of a history that have one entry for each message."""

_BY_RESULT: Final = ("owned_counts", "previous_sizes")
"""The arrays of a tracking that have one entry for each result, and that only grow."""
_BY_SEGMENT: Final = ("segment_end", "segment_tokens", "segment_result")
"""The arrays of a tracking that have one entry for each segment."""


def earlier_history(full_history: History, messages: int) -> History:
    """Return the history as it was after its first `messages` messages.

    All texts of `full_history` must be in memory, and its reuse must be a `RememberingReuse`.
    Nothing may be appended to the returned history.
    """
    earlier = History()
    event_count = full_history.events_before(messages)
    result_count = full_history.results_before(messages)
    text_count = bisect_left(full_history.text_messages, messages)
    # Arrays that only grow: copy their beginning.
    for field in _BY_MESSAGE:
        setattr(earlier, field, getattr(full_history, field)[:messages])
    earlier.text_totals = full_history.text_totals[: messages + 1]
    earlier.text_messages = full_history.text_messages[:text_count]
    for field in ResultArrays.__dataclass_fields__:
        setattr(earlier.results, field, getattr(full_history.results, field)[:result_count])
    # Indexes that can return an earlier state.
    assert isinstance(full_history.reuse, RememberingReuse)
    earlier.reuse = full_history.reuse.up_to(event_count, result_count)
    earlier.vectors = full_history.vectors.first(result_count)
    # Counts and positions: compute them again for the first messages.
    earlier.events = event_count
    earlier.assistants = earlier.roles.count("assistant")
    earlier.turn = earlier.assistants + 1
    earlier.total_tokens = earlier.totals[-1] if messages else 0
    earlier.leading_system = min(full_history.leading_system, messages)
    earlier.first_user = full_history.first_user if full_history.first_user < messages else -1
    earlier.last_user = earlier.latest_of("user", messages)
    earlier.last_assistant = earlier.latest_of("assistant", messages)
    # These are looked up by number or position, so entries of later messages do no harm.
    earlier.names, earlier.files = full_history.names, full_history.files
    earlier.replay_tracking = full_history.replay_tracking
    earlier._result_at = {message: number for number, message in enumerate(earlier.results.message)}
    return earlier


class RememberingTracking(Tracking):
    """A tracking that can return its state after each of its messages.

    Most of its arrays only grow, so their beginning is their earlier state. The changes of the
    other arrays are recorded with the position of the message that made them.
    """

    def __init__(self) -> None:
        """Start a tracking without messages."""
        super().__init__()
        self._position = 0  # of the message that is being added
        # One entry for each message, the counts after it:
        self._token_counts, self._event_counts = GrowableArray(), GrowableArray()
        # One entry for each result:
        self._result_positions: list[int] = []  # the position of its message
        self._result_turn = GrowableArray()
        # One entry for each token:
        self._first_use = GrowableArray(np.int32)  # the position of the message that used it first
        # One entry for each use of a result by an assistant message, in order:
        self._use_position = GrowableArray()  # the position of the assistant message
        self._used_result = GrowableArray(np.int32)
        self._use_turn = GrowableArray()

    def at(
        self, history: "History", messages: int, originals: Originals, counter: TokenCounter
    ) -> Tracking:
        """Return the tracking of exactly the first `messages` messages. Do not add to it.

        Read messages first that are not tracked yet. `history` is the tracked history or an earlier
        state of it. The returned tracking is valid until the next call of this method.
        """
        self.catch_up(history, messages, originals, counter)
        if self.message_count == messages:
            return self
        return self._earlier_tracking(history, messages, originals)

    def _earlier_tracking(
        self, history: "History", messages: int, originals: Originals
    ) -> Tracking:
        """Return the tracking as it was after its first `messages` messages.

        The arrays of the returned tracking share their memory with this one, where they only grow.
        """
        # Count what the first messages have, to know how much of each array to take.
        earlier = Tracking()
        earlier.message_count = messages
        result_count = bisect_left(self._result_positions, messages)
        segment_count = int(self.first_segment.values[result_count])
        token_count = int(self._token_counts.values[messages - 1]) if messages else 0
        event_count = int(self._event_counts.values[messages - 1]) if messages else 0

        # Results and segments. Arrays of offsets (`first_segment`, `segment_token_starts`) have one
        # more entry, the end of the last result or segment.
        for field in _BY_RESULT:
            setattr(earlier, field, getattr(self, field).first(result_count))
        for field in _BY_SEGMENT:
            setattr(earlier, field, getattr(self, field).first(segment_count))
        earlier.first_segment = self.first_segment.first(result_count + 1)
        earlier.segment_token_starts = self.segment_token_starts.first(segment_count + 1)
        earlier.segment_token_ids = self.segment_token_ids.first(
            int(self.segment_token_starts.values[segment_count])
        )
        earlier.word_index = self.word_index.first(result_count, segment_count)

        # Tokens and events: the tables of token numbers are shared, because copies would be slow.
        # `ids_of_texts` leaves out the numbers of later tokens.
        earlier._ids, earlier._ids_by_text = self._ids, self._ids_by_text
        earlier.token_kinds = self.token_kinds.first(token_count)
        earlier._owners = self._owners.first(token_count)
        earlier._event_token_starts = self._event_token_starts.first(event_count + 1)
        earlier._event_token_ids = self._event_token_ids.first(
            int(self._event_token_starts.values[event_count])
        )

        # Uses and words: later messages have changed them. A token was already used if the message
        # that used it first is one of these messages.
        earlier.is_used = _growable(self._first_use.values[:token_count] < messages)
        earlier.use_counts, earlier.last_use_turns = self._uses_before(messages, result_count)
        earlier.task_words, earlier.user_words, earlier.answer_words = _latest_words(
            history, messages, originals
        )
        return earlier

    def _uses_before(self, messages: int, result_count: int) -> tuple[GrowableArray, GrowableArray]:
        """Return `use_counts` and `last_use_turns` as of the first `messages` messages.

        Both have one entry for each of the first `result_count` results.
        """
        use_count = int(np.searchsorted(self._use_position.values, messages))
        used_results = self._used_result.values[:use_count]
        use_counts = np.bincount(used_results, minlength=result_count)
        # A result that was not used has its own turn. Of several uses, the latest is written last,
        # so it stays.
        last_use_turns = self._result_turn.values[:result_count].copy()
        last_use_turns[used_results] = self._use_turn.values[:use_count]
        return _growable(use_counts), _growable(last_use_turns)

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
        """Mark the tokens as used. Record which message is the first that used them."""
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
    """Return `task_words`, `user_words` and `answer_words` of a tracking of the first `messages`.

    They are the words of the first user message, of the latest user message and of the latest
    assistant message. If there is no such message, they are empty.
    """
    last_user = history.latest_of("user", messages)
    last_assistant = history.latest_of("assistant", messages)
    task_words = user_words = tuple[str, ...]()
    if last_user >= 0:  # then the first user message is among these messages, too
        task_words = words_of(_text(history.first_user, originals))
        user_words = words_of(_text(last_user, originals))
    if last_assistant < 0:
        return task_words, user_words, ()
    (answer,) = originals(last_assistant, last_assistant + 1)
    text = content_text(answer.get("content"))[:MOST_CHARACTERS]
    return task_words, user_words, words_in_turn(text, answer.get("tool_calls") or ())


def _text(position: int, originals: Originals) -> str:
    """Return the first `MOST_CHARACTERS` characters of a message's text."""
    (message,) = originals(position, position + 1)
    return content_text(message.get("content"))[:MOST_CHARACTERS]


def _growable(values: NDArray[np.generic]) -> GrowableArray:
    """Return a growable array of these values."""
    array = GrowableArray(values.dtype)
    array.extend(values)
    return array

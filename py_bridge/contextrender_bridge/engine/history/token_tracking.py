"""The tracked tokens of a history, their uses, and the segments of its results.

Each message is read once, in order. Long because all its arrays grow together.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from itertools import accumulate, chain, count
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import GrowableArray
from contextrender_bridge.engine.history.text_index import WordIndex, segments_of, words_of
from contextrender_bridge.engine.history.tracked_tokens import (
    Ids,
    TokenKinds,
    token_id_cache,
    tokens_by_part,
    tracked_runs,
    tracked_tokens,
)
from contextrender_bridge.engine.text.tokens import (
    TokenCounter,
    call_parts,
    call_text,
    content_text,
)
from contextrender_bridge.engine.text.transcript import Json

if TYPE_CHECKING:
    from contextrender_bridge.engine.history.history import History

Originals = Callable[[int, int], Sequence[Json]]
"""Reads the original messages from one position up to another."""

TextsOf = Callable[[Sequence[int]], list[str]]
"""Reads the texts of messages, by their positions."""


MOST_CHARACTERS: Final = 1_000_000
"""The number of a text's first characters that are tracked. No excerpt shows the characters after
them."""

_BATCH_MESSAGES: Final = 128
"""The number of messages that are read at once. It is small, so that few texts are in memory."""

_NEVER_FITS: Final = 2**30
"""A size in tokens that exceeds every limit. A segment with this size is in no excerpt."""


class Tracking:
    """Tracked tokens, words and segments of a history's first `message_count` messages.

    The first result that contains a tracked token is the token's owner. If a later assistant turn
    contains the token, the turn uses the token and its owner. Tokens, results, events and segments
    are numbered from 0 through the whole history. `ids` are numbers of tokens. `__init__` says what
    each field has.
    """

    def __init__(self) -> None:
        """Start the tracking of a history, without messages."""
        self.message_count = 0

        # Each token, by its number:
        self._ids: dict[str, int] = {}  # the number of each token
        self._ids_by_text = token_id_cache(self._ids)
        self._owners = GrowableArray(np.int32)  # the first result that has it (its owner), or -1
        self.is_used = GrowableArray(np.bool_)  # whether a turn used it
        self.token_kinds = TokenKinds()  # which tokens are alike (docs/policies.md, Weights)

        # Each result, by its number:
        self.owned_counts = GrowableArray()  # the number of tokens that no earlier result has
        self.use_counts = GrowableArray()  # the number of turns that used a token it owns
        self.last_use_turns = GrowableArray()  # the latest of these turns, or the result's own
        self.previous_sizes = GrowableArray()
        """The size of the largest earlier result whose call has the same name and arguments."""
        self.first_segment = GrowableArray()  # and one more entry: the number of all segments
        self.first_segment.append(0)

        # Each segment, by its number:
        self.segment_result = GrowableArray(np.int32)
        self.segment_end = GrowableArray(np.int32)  # in its result's text, in characters
        self.segment_tokens = GrowableArray(np.int32)  # its size
        self.segment_token_ids = GrowableArray(np.int32)
        """The numbers of the tracked tokens of all segments, in order."""
        self.segment_token_starts = GrowableArray()
        """The index of each segment's first token in `segment_token_ids`, and the list's end."""
        self.segment_token_starts.append(0)

        # Each event, by its number:
        self._event_token_ids = GrowableArray(np.int32)
        """The numbers of the tracked tokens of all events, in order."""
        self._event_token_starts = GrowableArray()
        """The index of each event's first token in `_event_token_ids`, and the list's end."""
        self._event_token_starts.append(0)

        # Words and calls:
        self.word_index = WordIndex()  # the words of each segment
        self.task_words: tuple[str, ...] = ()  # of the first user message
        self.user_words: tuple[str, ...] = ()  # of the latest user message
        self.answer_words: tuple[str, ...] = ()  # of the latest assistant message with its calls
        self._open_calls: dict[tuple[int, int], tuple[str, int]] = {}
        """The tool and hash of each call without a result, by its message and its number there."""
        self._largest_results: dict[int, int] = {}
        """The size of the largest result of each call, by the hash of its name and arguments."""

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        arrays = GrowableArray.bytes_in(self)
        parts = self.word_index.nbytes + self.token_kinds.nbytes + self._ids_by_text.nbytes
        return arrays + parts + 150 * len(self._ids) + 80 * len(self._largest_results)

    @property
    def token_count(self) -> int:
        """The number of distinct tracked tokens."""
        return len(self._owners.values)

    def catch_up(
        self, history: "History", stop: int, originals: Originals, counter: TokenCounter
    ) -> None:
        """Add the history's messages up to position `stop`."""
        while self.message_count < stop:
            start, end = self.message_count, min(stop, self.message_count + _BATCH_MESSAGES)
            for position, message in enumerate(originals(start, end), start):
                self._add(history, position, message, counter)
            self.message_count = end

    @property
    def event_count(self) -> int:
        """The number of events of the messages."""
        return len(self._event_token_starts.values) - 1

    def tokens_of_events(self, events: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return, for each tracked token, whether an event with a true flag contains it.

        `events` has a flag for each event.
        """
        is_present = np.zeros(self.token_count, np.bool_)
        counts = np.diff(self._event_token_starts.values)
        is_present[self._event_token_ids.values[np.repeat(events, counts)]] = True
        return is_present

    def occurrences(self, tokens: NDArray[np.bool_]) -> tuple[NDArray[np.int64], Ids]:
        """Return where the tokens with a true flag occur, as two arrays of equal length.

        `tokens` has a flag for each tracked token. An occurrence is an entry of the first array, an
        event, and the same entry of the second array, a token in this event.
        """
        indexes = np.flatnonzero(tokens[self._event_token_ids.values])
        events = np.searchsorted(self._event_token_starts.values, indexes, side="right") - 1
        return events, self._event_token_ids.values[indexes]

    def owners(self, ids: Ids) -> Ids:
        """Return the result that owns each of these tokens, or -1."""
        return self._owners.values[ids]

    def ids_of_events(self, first: int, stop: int) -> Ids:
        """Return the tracked tokens of the events from `first` up to `stop`."""
        starts = self._event_token_starts.values
        return self._event_token_ids.values[starts[first] : starts[stop]]

    def segments_of(self, result: int) -> range:
        """Return the segments of a result."""
        first, stop = self.first_segment.values[result : result + 2].tolist()
        return range(first, stop)

    def ids_of_segments(self, first: int, stop: int) -> Ids:
        """Return the tracked tokens of the segments from `first` up to `stop`."""
        starts = self.segment_token_starts.values
        return self.segment_token_ids.values[starts[first] : starts[stop]]

    def ids_of_texts(self, texts: Sequence[str]) -> Ids:
        """Return the tracked tokens of these texts."""
        # The cache has, for each text, the numbers of its tokens, and the tokens that had no number
        # when the text was cached. These tokens may have got a number since.
        cached = self._ids_by_text.each(texts)
        new = [self._ids[token] for _, tokens in cached for token in tokens if token in self._ids]
        ids: Ids = np.concatenate([np.array(new, np.int32), *(numbers for numbers, _ in cached)])
        return ids[ids < self.token_count]  # an earlier tracking shares `_ids` with a later one

    def _add(self, history: "History", position: int, message: Json, counter: TokenCounter) -> None:
        """Add the next message: a result, an assistant's turn, or another message's text."""
        full_text = content_text(message.get("content"))
        text = full_text[:MOST_CHARACTERS]
        role = history.roles[position]
        if role == "tool":
            result = history.result_at(position)
            self._add_result(history, result, text, len(full_text) - len(text), counter)
        elif role == "assistant":
            calls = message.get("tool_calls") or ()
            # Keep each call until its result comes: the result needs the tool's name and the hash.
            for number, call in enumerate(calls):
                name, arguments = call_parts(call)
                self._open_calls[position, number] = name, hash((name, arguments))
            self._add_turn(history.turns[position], text, calls)
        else:
            # A user or system message owns and uses no tokens.
            self._add_event(tracked_tokens(text))
            if role == "user":
                self.user_words = words_of(text)
                if position == history.first_user:
                    self.task_words = self.user_words

    def _add_turn(self, turn: int, text: str, calls: Iterable[Json]) -> None:
        """Add the tokens of an assistant message's text and calls.

        Mark those that a result owns as used, and count one use by this turn for each owner.
        """
        event_texts = [text]
        for call in calls:
            name, arguments = call_parts(call)
            event_texts.append(call_text(name, arguments[:MOST_CHARACTERS]))
        self.answer_words = words_in_turn(text, calls)
        used_results: set[int] = set()
        for event_text in event_texts:
            ids, _ = self._add_event(tracked_tokens(event_text))
            owners = self._owners.values[ids]
            has_owner = owners >= 0
            self._add_token_uses(ids[has_owner])
            used_results.update(owners[has_owner].tolist())
        for result in used_results:
            self._add_result_use(result, turn)

    def _add_result(
        self, history: "History", result: int, text: str, untracked: int, counter: TokenCounter
    ) -> None:
        """Add a result's tokens and segments.

        `text` is the tracked part of the result. `untracked` is the number of characters after it.
        """
        # The tokens of the whole result. A run is a stretch of word characters, and maps to the
        # tokens that it contains.
        tokens_by_run = tracked_runs(text)
        tokens: set[str] = set().union(*tokens_by_run.values())
        tool, call_hash = self._open_calls.pop(history.call_of(result), ("", None))
        _, owned_count = self._add_event(tokens, result, tool)

        # Its segments, with their ends in the text and their sizes in tokens.
        segments = segments_of(text)
        ends = list(accumulate(map(len, segments)))
        sizes = counter.spread(text, ends)
        previous_size = self._record_size(call_hash, sum(sizes))  # of earlier results of the call
        if untracked:  # one more segment, without tokens and too large for any excerpt
            ends.append(len(text) + untracked)
            segments.append("")
            sizes.append(_NEVER_FITS)
        self.word_index.add(segments)
        segment_count = len(self.segment_end.values) + len(segments)  # of all results so far

        # The numbers of the segments' tokens go into one array. `id_ends` has the index in it at
        # which the numbers of each segment end.
        tokens_by_segment = (
            [tokens] if len(segments) == 1 else tokens_by_part(segments, tokens_by_run)
        )
        ids = [self._ids[token] for token in chain.from_iterable(tokens_by_segment)]
        ids_before = len(self.segment_token_ids.values)
        id_ends = list(accumulate(map(len, tokens_by_segment), initial=ids_before))

        # Add one entry for the result, and one for each segment.
        GrowableArray.extend_all(
            (self.owned_counts, (owned_count,)),
            (self.use_counts, (0,)),
            (self.last_use_turns, (history.results.turn[result],)),
            (self.previous_sizes, (previous_size,)),
            (self.first_segment, (segment_count,)),  # the first segment of the next result
            (self.segment_token_ids, ids),
            (self.segment_token_starts, id_ends[1:]),  # the first is already there
            (self.segment_end, ends),
            (self.segment_tokens, sizes),
            (self.segment_result, [result] * len(segments)),
        )

    def _add_token_uses(self, ids: Ids) -> None:
        """Mark these tokens as used by an assistant turn."""
        self.is_used.values[ids] = True

    def _add_result_use(self, result: int, turn: int) -> None:
        """Count an assistant turn that used a token of this result."""
        self.use_counts.values[result] += 1
        self.last_use_turns.values[result] = turn

    def _record_size(self, call_hash: int | None, tokens: int) -> int:
        """Record the size of a call's result, and return that of the largest earlier result.

        The earlier results are those of calls with the same name and arguments, whose hash is
        `call_hash`. Without such a result, or if `call_hash` is None, return 0.
        """
        if call_hash is None:  # the result has no call
            return 0
        largest_earlier = self._largest_results.get(call_hash, 0)
        self._largest_results[call_hash] = max(largest_earlier, tokens)
        return largest_earlier

    def _add_event(self, tokens: Set[str], result: int = -1, tool: str = "") -> tuple[Ids, int]:
        """Add the tokens of the next event, and return their numbers.

        Also return how many tokens the event owns. For a result, `result` is its number, and `tool`
        the tool that returned it. The result becomes the owner of every token in it that has no
        owner yet. For any other event, `result` is -1, and the event owns no tokens.
        """
        # Give the next numbers to the new tokens.
        all_ids = self._ids
        new_tokens = [token for token in tokens if token not in all_ids]
        all_ids.update(zip(new_tokens, count(len(self._owners.values)), strict=False))
        ids = np.array([all_ids[token] for token in tokens], np.int32)
        GrowableArray.extend_all(
            # One entry for each new token:
            (self._owners, [result] * len(new_tokens)),
            (self.is_used, [False] * len(new_tokens)),
            # All tokens of the event, and the index at which the next event's tokens will begin:
            (self._event_token_ids, ids),
            (self._event_token_starts, (len(self._event_token_ids.values) + len(ids),)),
        )
        # A token's weight depends on its kind: its shape, and the tool that first returned it.
        if new_tokens:
            self.token_kinds.extend(new_tokens, tool)
        if result < 0:
            return ids, 0
        # Tokens that only messages and calls had so far have no owner. New tokens have one already.
        owners = self._owners.values
        unowned = ids[owners[ids] < 0]
        owners[unowned] = result
        return ids, len(new_tokens) + len(unowned)


def words_in_turn(text: str, calls: Iterable[Json]) -> tuple[str, ...]:
    """Return the distinct words of an assistant's text and of its calls' arguments."""
    words = dict.fromkeys(words_of(text))
    for call in calls:
        words |= dict.fromkeys(words_of(call_parts(call)[1][:MOST_CHARACTERS]))
    return tuple(words)

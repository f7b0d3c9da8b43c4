"""The tracked tokens of a history, their uses, and the segments of its results.

It is computed once from each message, in order. Long because all its arrays grow together.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from itertools import accumulate, count
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import GrowableArray
from contextrender_bridge.engine.history.text_index import (
    TokenKinds,
    WordIndex,
    segments_of,
    words_of,
)
from contextrender_bridge.engine.text.tokens import TokenCounter, call_parts, content_text
from contextrender_bridge.engine.text.transcript import Json, call_text
from contextrender_bridge.engine.text.values import (
    Ids,
    numbered,
    tokens_by_part,
    tracked_runs,
    tracked_tokens,
)

if TYPE_CHECKING:
    from contextrender_bridge.engine.history.history import History

Originals = Callable[[int, int], Sequence[Json]]
"""Reads the original messages from one position up to another."""

TextOf = Callable[[int], str]
"""Reads a message's text."""


MOST_CHARACTERS: Final = 1_000_000
"""How much of one text is looked at; what is beyond is shown only with all of it."""

_AT_ONCE: Final = 128
_NEVER: Final = 2**30


class Tracking:
    """Tracked tokens, words and segments of a history's first `messages` messages.

    A tracked token belongs to the first result that holds it. Of each result: `introduced` counts
    the tokens that belong to it, `uses` the assistant turns that said one of them since, and
    `last_use` is the latest of these turns, or else the result's own. `answered` are the tokens of
    the largest earlier result of the same call, word for word.

    Segments are numbered along all results; those of result r start at `first_segment[r]`, and
    `first_segment` has one entry more. `task`, `question` and `latest` are the words of the first
    user message, of the latest one, and of the latest assistant message with its arguments.
    """

    def __init__(self) -> None:
        self.messages = 0
        self.task: tuple[str, ...] = ()
        self.question: tuple[str, ...] = ()
        self.latest: tuple[str, ...] = ()
        self.words = WordIndex()
        self.introduced, self.uses, self.last_use = (
            GrowableArray(),
            GrowableArray(),
            GrowableArray(),
        )
        self.answered = GrowableArray()
        self.first_segment = GrowableArray()
        self.first_segment.append(0)
        self.segment_end, self.segment_tokens = GrowableArray(np.int32), GrowableArray(np.int32)
        self.segment_result = GrowableArray(np.int32)
        self.segment_ids, self.segment_ids_at = GrowableArray(np.int32), GrowableArray()
        self.segment_ids_at.append(0)
        self.used = GrowableArray(np.bool_)
        self._owner = GrowableArray(np.int32)
        self._ids: dict[str, int] = {}
        self.kinds = TokenKinds()
        self._asked: dict[tuple[int, int], tuple[str, int]] = {}
        self._sizes: dict[int, int] = {}
        self._remembered = numbered(self._ids)
        self._event_ids, self._event_ids_at = GrowableArray(np.int32), GrowableArray()
        self._event_ids_at.append(0)

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        arrays = GrowableArray.bytes_in(self)
        parts = self.words.nbytes + self.kinds.nbytes + self._remembered.nbytes
        return arrays + parts + 150 * len(self._ids) + 80 * len(self._sizes)

    @property
    def tokens(self) -> int:
        """How many distinct tracked tokens there are."""
        return len(self._owner.values)

    def catch_up(
        self, history: "History", stop: int, originals: Originals, counter: TokenCounter
    ) -> None:
        """Adds the history's messages up to position `stop`."""
        while self.messages < stop:
            start, end = self.messages, min(stop, self.messages + _AT_ONCE)
            for position, message in enumerate(originals(start, end), start):
                self._add(history, position, message, counter)
            self.messages = end

    @property
    def events(self) -> int:
        """How many events the messages had."""
        return len(self._event_ids_at.values) - 1

    def tokens_of_events(self, events: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """By tracked token, whether any of the events flagged says it."""
        found = np.zeros(self.tokens, np.bool_)
        counts = np.diff(self._event_ids_at.values)
        found[self._event_ids.values[np.repeat(events, counts)]] = True
        return found

    def events_saying(self, tokens: NDArray[np.bool_]) -> tuple[NDArray[np.int64], Ids]:
        """Every saying of the tokens flagged: the event, and the token by number."""
        at = np.flatnonzero(tokens[self._event_ids.values])
        events = np.searchsorted(self._event_ids_at.values, at, side="right") - 1
        return events, self._event_ids.values[at]

    def owners(self, ids: Ids) -> Ids:
        """The result that each of these tokens belongs to, by number; -1: to none."""
        return self._owner.values[ids]

    def ids_of_events(self, first: int, stop: int) -> Ids:
        """The tracked tokens that the events from `first` up to `stop` say, by number."""
        at = self._event_ids_at.values
        return self._event_ids.values[at[first] : at[stop]]

    def ids_of_segments(self, first: int, stop: int) -> Ids:
        """The tracked tokens of the segments from `first` up to `stop`, by number."""
        at = self.segment_ids_at.values
        return self.segment_ids.values[at[first] : at[stop]]

    def known(self, texts: Sequence[str]) -> Ids:
        """The numbers of those tracked tokens of texts that have one."""
        read = self._remembered.each(texts)
        since = [self._ids[token] for _, others in read for token in others if token in self._ids]
        numbers: Ids = np.concatenate([np.array(since, np.int32), *(known for known, _ in read)])
        return numbers[numbers < self.tokens]

    def _add(self, history: "History", position: int, message: Json, counter: TokenCounter) -> None:
        whole = content_text(message.get("content"))
        text = whole[:MOST_CHARACTERS]
        role = history.roles[position]
        if role == "tool":
            result = history.result_at(position)
            self._add_result(history, result, text, len(whole) - len(text), counter)
        elif role == "assistant":
            calls = message.get("tool_calls") or ()
            for number, call in enumerate(calls):
                parts = call_parts(call)
                self._asked[position, number] = parts[0], hash(parts)
            self._add_turn(history.turns[position], text, calls)
        else:
            self._note(tracked_tokens(text))
            if role == "user":
                self.question = words_of(text)
                if position == history.first_user:
                    self.task = self.question

    def _add_turn(self, turn: int, text: str, calls: Iterable[Json]) -> None:
        parts = [text]
        for call in calls:
            name, arguments = call_parts(call)
            parts.append(call_text(name, arguments[:MOST_CHARACTERS]))
        self.latest = words_in_turn(text, calls)
        touched: set[int] = set()
        for part in parts:
            ids, _ = self._note(tracked_tokens(part))
            owners = self._owner.values[ids]
            self._note_use(ids[owners >= 0])
            touched.update(owners[owners >= 0].tolist())
        for result in touched:
            self._note_turn(result, turn)

    def _add_result(
        self, history: "History", result: int, text: str, beyond: int, counter: TokenCounter
    ) -> None:
        runs = tracked_runs(text)
        tracked: set[str] = set().union(*runs.values())
        tool, asked = self._asked.pop(history.call_of(result), ("", None))
        _, introduced = self._note(tracked, result, tool)
        parts = segments_of(text)
        ends = list(accumulate(map(len, parts)))
        sizes = counter.spread(text, ends)
        answered = self._answer(asked, sum(sizes))
        if beyond:
            ends.append(len(text) + beyond)
            parts.append("")
            sizes.append(_NEVER)
        self.words.add(parts)
        held = [tracked] if len(parts) == 1 else tokens_by_part(parts, runs)
        ids = [self._ids[token] for tokens in held for token in tokens]
        reached = accumulate(map(len, held), initial=len(self.segment_ids.values))
        GrowableArray.extend_all(
            (self.introduced, (introduced,)),
            (self.uses, (0,)),
            (self.last_use, (history.results.turn[result],)),
            (self.answered, (answered,)),
            (self.first_segment, (len(self.segment_end.values) + len(ends),)),
            (self.segment_ids, ids),
            (self.segment_ids_at, list(reached)[1:]),
            (self.segment_end, ends),
            (self.segment_tokens, sizes),
            (self.segment_result, [result] * len(parts)),
        )

    def _note_use(self, ids: Ids) -> None:
        """A turn said these tokens, which results own."""
        self.used.values[ids] = True

    def _note_turn(self, result: int, turn: int) -> None:
        """A turn said something that a result owns."""
        self.uses.values[result] += 1
        self.last_use.values[result] = turn

    def _answer(self, asked: int | None, tokens: int) -> int:
        """How large the results of this very call, if it is known, were before; the next learns
        of these `tokens`, too."""
        known = 0 if asked is None else self._sizes.get(asked, 0)
        if asked is not None:
            self._sizes[asked] = max(known, tokens)
        return known

    def _note(self, tokens: Set[str], result: int = -1, tool: str = "") -> tuple[Ids, int]:
        """Numbers the next event's tokens; also how many of them now belong to `result`."""
        known = self._ids
        fresh = [token for token in tokens if token not in known]
        known.update(zip(fresh, count(len(self._owner.values)), strict=False))
        ids = np.array([known[token] for token in tokens], np.int32)
        GrowableArray.extend_all(
            (self._owner, [result] * len(fresh)),
            (self.used, [False] * len(fresh)),
            (self._event_ids, ids),
            (self._event_ids_at, (len(self._event_ids.values) + len(ids),)),
        )
        if fresh:
            self.kinds.extend(fresh, tool)
        introduced = len(fresh)
        if result >= 0:
            owners = self._owner.values
            unowned = ids[owners[ids] < 0]
            owners[unowned] = result
            introduced += len(unowned)
        return ids, introduced


def words_in_turn(text: str, calls: Iterable[Json]) -> tuple[str, ...]:
    """The distinct words of an assistant's text and of its calls' arguments."""
    words = dict.fromkeys(words_of(text))
    for call in calls:
        words |= dict.fromkeys(words_of(call_parts(call)[1][:MOST_CHARACTERS]))
    return tuple(words)

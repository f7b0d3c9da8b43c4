"""The input of a policy: one model call, with the history before it, its budget and its settings.

A policy returns a `Selection` (engine.plan.selection) for it. Long because the input includes the
text that a prompt retains before any result (docs/method.md, Retained text), and all arrays from
which policies select results.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.history import NO_CALL, History
from contextrender_bridge.engine.history.token_tracking import Originals, TextsOf, Tracking
from contextrender_bridge.engine.parameters import NO_PINS, Parameters, Pins
from contextrender_bridge.engine.plan.ranking import Floats
from contextrender_bridge.engine.plan.selection import (
    Selection,
    Substitute,
    TextSelection,
    text_tokens,
    unbudgeted_messages,
)
from contextrender_bridge.engine.text.excerpt import excerpt
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD, TokenCounter
from contextrender_bridge.engine.text.transcript import Json

NO_SUBSTITUTE: Final = Substitute("", 0)
"""The substitute of a message that is shown without text, for its calls alone."""


class RelevanceOf(Protocol):
    """A function that returns the relevance of every result."""

    def __call__(self, task_share: float | None = None) -> Floats:
        """Return the relevance of every result, shape (n,).

        `task_share` overrides the weight of the first user message in the query.
        """


Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CallContext:
    """The model call that had the first `message_count` messages of a history, for a policy.

    It is the next call if the history has no more messages. Otherwise it is an earlier call, and
    the message after them is its answer.

    - `relevance_of()` returns every result's cosine to the query. Only policies that rank results
      by relevance call it, once per model call.
    - `originals_of` reads messages that are not in memory.
    - `pins` names the results that must be in every prompt.
    - `budget` is in tokens. For a policy with an automatic budget, it is the upper limit, and the
      first call has `start_budget` tokens. For other policies, `start_budget` is 0.
    - `previous` is the newest known selection of an answered call. A cache-aware policy continues
      its prompt. If `select_answered` is true, the policy first makes the selections of the calls
      that were answered after it, and then continues the last of these prompts.
    - `track(count)` returns the tracking of exactly the first `count` messages. The next call does
      not need it.
    """

    history: History
    message_count: int
    budget: int
    parameters: Parameters
    counter: TokenCounter
    texts_of: TextsOf
    relevance_of: RelevanceOf
    originals_of: Originals | None = None
    pins: Pins = NO_PINS
    start_budget: int = 0
    previous: Selection | None = None
    select_answered: bool = False
    track: Callable[[int], Tracking] | None = None

    def originals(self, start: int, stop: int) -> Sequence[Json]:
        """Return the original messages from position `start` up to `stop`.

        Raise LookupError if some are not in memory and there is no `originals_of`.
        """
        if self.originals_of is not None:
            return self.originals_of(start, stop)
        messages = self.history.messages[start:stop]
        originals = [message for message in messages if message is not None]
        if len(originals) < stop - start:
            raise LookupError("messages were dropped from memory, and no reader was given")
        return originals

    def text_of(self, message: int) -> str:
        """Return the text of the message at this position."""
        return self.texts_of([message])[0]

    def tracking_of(self, messages: int) -> Tracking:
        """Return the history's tracking of at least its first `messages` messages."""
        if self.track is not None:
            return self.track(messages)
        return self.history.tracking_of(messages, self.originals, self.counter)

    @cached_property
    def retained_text(self) -> TextSelection:
        """The texts that the prompt shows, chosen before any result (docs/method.md)."""
        return self.retain_text(self.budget)

    def retain_text(self, budget: int) -> TextSelection:
        """Return the text of a prompt within `budget` tokens (docs/method.md, Retained text).

        Drop whole turns, the oldest first, until the text fits. The first user message and the last
        turn are never dropped. If they alone exceed the budget, cut them.
        """
        history = self.history
        tokens = history.text_tokens[: self.message_count]  # 0 for results
        # The system prompt and the current user message are always shown, and use no budget.
        total = history.text_totals[self.message_count] - self.unbudgeted_tokens
        if total <= budget:
            return TextSelection()
        # Drop turns. `dropped` has the positions of texts; results are dropped with their turn.
        dropped: list[int] = []
        dropped_turns: list[int] = []
        for turn, positions in sorted(self._droppable_by_turn().items()):
            if total <= budget:
                break
            total -= sum(tokens[position] for position in positions)
            dropped += [position for position in positions if not history.is_result(position)]
            dropped_turns.append(turn)
        # If all droppable turns are dropped and the text is still too large, cut the other texts.
        cut: dict[int, Substitute] = {}
        if total > budget:
            not_to_cut = self.unbudgeted.union(dropped)
            sizes = {p: size for p, size in enumerate(tokens) if size and p not in not_to_cut}
            cut = excerpts_of(sizes, budget, self.text_of, self.counter)
        return TextSelection(tuple(sorted(dropped)), cut, tuple(dropped_turns))

    def _droppable_by_turn(self) -> dict[int, list[int]]:
        """Return the positions of the messages that may be dropped, by their turn."""
        history, by_turn = self.history, dict[int, list[int]]()
        last_turn = self.turn - 1  # the turn of the last assistant message
        not_to_drop = {*self.unbudgeted, history.first_user}
        for position, turn in enumerate(history.turns[: self.message_count]):
            if turn < last_turn and position not in not_to_drop:
                by_turn.setdefault(turn, []).append(position)
        return by_turn

    @cached_property
    def unbudgeted(self) -> frozenset[int]:
        """The positions of the system prompt and the current user message, which cost no budget."""
        return unbudgeted_messages(self.history, self.message_count)

    @cached_property
    def unbudgeted_tokens(self) -> int:
        """The tokens of the `unbudgeted` messages."""
        return sum(self.history.text_tokens[position] for position in self.unbudgeted)

    @cached_property
    def budget_for_results(self) -> int:
        """The part of the budget that the retained text does not use, in tokens."""
        return self.budget - self.tokens_of(self.retained_text)

    def tokens_of(self, text: TextSelection) -> int:
        """Return the budgeted tokens of a text selection."""
        return text_tokens(self.history, text, self.message_count) - self.unbudgeted_tokens

    @cached_property
    def ages(self) -> Floats:
        """The age of each result in turns, as of the call."""
        return self.turn - self.result_turns.astype(np.float64)

    @cached_property
    def reuse(self) -> Floats:
        """The reuse score of each result (c in docs/method.md), as of the next call."""
        return np.array(self.history.reuse.scores(), dtype=np.float64)

    def usefulness(self, relevance: Floats) -> Floats:
        """Return the usefulness U of every result (docs/method.md, Selection), shape (n,).

        It is the weighted sum of the result's recency, its reuse and its `relevance` (s).
        """
        parameters = self.parameters
        return (
            parameters.weight_recency * np.exp(-parameters.recency_decay * self.ages)
            + parameters.weight_reuse * (1.0 - np.exp(-parameters.reuse_rate * self.reuse))
            + parameters.weight_relevance * relevance
        )

    @cached_property
    def eligible(self) -> NDArray[np.bool_]:
        """A flag for each result, true if the result has a call and its turn is not dropped.

        Only such a result may be shown.
        """
        if self.retained_text.dropped_turns:
            return self.has_call & ~np.isin(self.result_turns, self.retained_text.dropped_turns)
        return self.has_call

    @cached_property
    def turn(self) -> int:
        """The number of the call. The call's answer has the same turn."""
        history = self.history
        is_answered = self.message_count < len(history.roles)
        return history.turns[self.message_count] if is_answered else history.turn

    @cached_property
    def result_count(self) -> int:
        """The number of results before the call."""
        return self.history.results_before(self.message_count)

    @cached_property
    def last_assistant(self) -> int:
        """The position of the latest assistant message, or -1."""
        return self.history.latest_of("assistant", self.message_count)

    @cached_property
    def last_user(self) -> int:
        """The position of the current user message, or -1."""
        return self.history.latest_of("user", self.message_count)

    @cached_property
    def text_tokens(self) -> Ints:
        """The budgeted tokens of each message's text, by position."""
        tokens = np.array(self.history.text_tokens[: self.message_count], np.int64)
        tokens[list(self.unbudgeted)] = 0
        return tokens

    def seconds_since(self, messages: int) -> float:
        """Return the seconds since the earlier call that had the first `messages` messages.

        If `messages` is 0, there was no earlier call: return 0.
        """
        times = self.history.times
        return times[self.message_count - 1] - times[messages - 1] if messages else 0.0

    @property
    def fits(self) -> bool:
        """True if all messages and results before the call are within the budget."""
        total = self.history.totals[self.message_count - 1] if self.message_count else 0
        return total - self.unbudgeted_tokens <= self.budget

    @cached_property
    def result_turns(self) -> Ints:
        """The turn of each result."""
        # Python refuses to append to an `array` while NumPy shares its memory, so copy it.
        return np.array(self.history.results.turn[: self.result_count], np.int64)

    @cached_property
    def call_tokens(self) -> Ints:
        """The tokens of each result's call."""
        return np.array(self.history.results.call_tokens[: self.result_count], np.int64)

    @cached_property
    def costs(self) -> Ints:
        """The tokens of each result together with its call."""
        return self.sizes + self.call_tokens

    @cached_property
    def sizes(self) -> Ints:
        """The tokens of each result without its call."""
        return np.array(self.history.results.tokens[: self.result_count], np.int64)

    @cached_property
    def has_call(self) -> NDArray[np.bool_]:
        """For each result, whether it has a call."""
        calls = np.array(self.history.results.call_event[: self.result_count], np.int64)
        has_call: NDArray[np.bool_] = calls != NO_CALL
        return has_call

    @cached_property
    def newest(self) -> list[int]:
        """The results of the latest turn, and all results after the latest assistant message."""
        is_newest = self.result_turns == self.turn - 1
        first_after_answer = bisect_left(self.history.results.message, self.last_assistant)
        is_newest[first_after_answer:] = True
        return [int(r) for r in np.flatnonzero(self.has_call & is_newest)]

    @cached_property
    def pinned(self) -> list[int]:
        """The pinned results that have a call."""
        pins, history = self.pins, self.history
        if pins == NO_PINS:
            return []
        results = history.results
        return [
            result
            for result in np.flatnonzero(self.has_call).tolist()
            if pins.names(history.names[results.event[result]], results.call_id[result])
        ]

    @cached_property
    def tracking(self) -> Tracking:
        """The tracked tokens, words and segments of the messages before the call."""
        return self.tracking_of(self.message_count)

    def tracking_with(self, messages: int) -> Tracking:
        """Return a tracking of at least the first `messages` messages, but of none after the call.

        Use a tracking that exists already, if possible, because to make one all messages must be
        read. A replay has a tracking of this call, and the history's own tracking may fit.
        """
        if self.history.replay_tracking is not None:
            return self.tracking
        tracking = self.history.tracking
        if tracking is not None and messages <= tracking.message_count <= self.message_count:
            return tracking
        return self.tracking_of(messages)

    @cached_property
    def tokens_of_texts(self) -> dict[int, tuple[TextSelection, NDArray[np.bool_]]]:
        """A cache: which tracked tokens the texts of a text selection have, by `id(selection)`.

        Each entry also has the selection itself, so that no other object can get the same `id`.
        """
        return {}

    @cached_property
    def excerpts(self) -> dict[tuple[int, tuple[int, ...]], Substitute]:
        """A cache of excerpts. The key is the result's number and the numbers of its segments."""
        return {}


def tracker(context: CallContext) -> Callable[[int], Tracking]:
    """Return a function `track(messages)` for the `CallContext`s of several model calls.

    It returns the tracking (tracked tokens, words and segments) of exactly the first `messages`
    messages of the history. Each call of the function must have at least as many messages as the
    one before, because a tracking only grows. Only a replay's tracking can return its earlier
    states.
    """
    earlier_tracking: Tracking | None = None

    def track(messages: int) -> Tracking:
        """Return the tracking of the first `messages` messages."""
        nonlocal earlier_tracking
        tracking = context.history.tracking
        has_later_messages = tracking is not None and tracking.message_count > messages
        can_go_back = context.history.replay_tracking is not None
        if can_go_back or not has_later_messages:
            return context.tracking_of(messages)
        # The history's tracking has later messages, too, so read the first messages again.
        earlier_tracking = earlier_tracking or Tracking()
        earlier_tracking.catch_up(context.history, messages, context.originals, context.counter)
        return earlier_tracking

    return track


def select_all(context: CallContext) -> Selection:
    """Return the selection of every result that has a call, whatever its size."""
    complete = tuple(np.flatnonzero(context.has_call).tolist())
    return Selection(context.message_count, complete=complete)


def excerpts_of(
    sizes: Mapping[int, int], budget: int, text_of: Callable[[int], str], counter: TokenCounter
) -> dict[int, Substitute]:
    """Cut the largest of these texts, so that all texts together fit the budget.

    `sizes` maps the position of each text to its tokens. Return the excerpts of the cut texts by
    position. All texts have equal shares of the budget. What a small text does not use is shared by
    the larger texts.
    """
    # The smallest texts come first, so that the tokens they do not use are known.
    excerpts: dict[int, Substitute] = {}
    remaining_tokens = budget
    smallest_first = sorted(sizes, key=lambda position: (sizes[position], -position))
    for index, position in enumerate(smallest_first):
        share = remaining_tokens // (len(sizes) - index)
        tokens = sizes[position]
        if tokens > share:
            text = excerpt(text_of(position), share - MESSAGE_OVERHEAD, counter)
            excerpts[position] = to_substitute(text, counter)
            tokens = excerpts[position].tokens
        remaining_tokens -= tokens
    return excerpts


def to_substitute(text: str, counter: TokenCounter) -> Substitute:
    """Return a substitute with this text. An empty text has no message, so it costs no tokens."""
    return Substitute(text, counter.text(text) + MESSAGE_OVERHEAD) if text else NO_SUBSTITUTE

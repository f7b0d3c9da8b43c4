"""The context of one model call, the next or an earlier one, for policies that track tokens."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.history import NO_CALL
from contextrender_bridge.engine.history.token_tracking import Tracking
from contextrender_bridge.engine.parameters import NO_PINS
from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.selection import Substitute, TextSelection

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CallContext:
    """The model call that had the first `message_count` messages of the view's history.

    It is the next call if the history has no more messages. Otherwise it is an earlier call, and
    the message after them is its answer. `track(count)` returns the tracking of exactly the first
    `count` messages.
    """

    view: PolicyInput
    message_count: int
    track: Callable[[int], Tracking]

    @cached_property
    def turn(self) -> int:
        """The number of the call. The call's answer has the same turn."""
        history = self.view.history
        is_answered = self.message_count < len(history.roles)
        return history.turns[self.message_count] if is_answered else history.turn

    @cached_property
    def result_count(self) -> int:
        """The number of results before the call."""
        return self.view.history.results_before(self.message_count)

    @cached_property
    def last_assistant(self) -> int:
        """The position of the latest assistant message, or -1."""
        return self.view.history.latest_of("assistant", self.message_count)

    @cached_property
    def last_user(self) -> int:
        """The position of the current user message, or -1."""
        return self.view.history.latest_of("user", self.message_count)

    @cached_property
    def unbudgeted(self) -> frozenset[int]:
        """The positions of the system prompt and the current user message, which cost no budget."""
        leading = min(self.view.history.leading_system, self.message_count)
        return frozenset([*range(leading), self.last_user]) - {-1}

    @cached_property
    def text_tokens(self) -> Ints:
        """The budgeted tokens of each message's text, by position."""
        tokens = np.array(self.view.history.text_tokens[: self.message_count], np.int64)
        tokens[list(self.unbudgeted)] = 0
        return tokens

    @cached_property
    def unbudgeted_tokens(self) -> int:
        """The tokens of the `unbudgeted` messages."""
        return sum(self.view.history.text_tokens[position] for position in self.unbudgeted)

    def seconds_since(self, messages: int) -> float:
        """Return the seconds since the earlier call that had the first `messages` messages.

        If `messages` is 0, there was no earlier call: return 0.
        """
        times = self.view.history.times
        return times[self.message_count - 1] - times[messages - 1] if messages else 0.0

    def with_budget(self, budget: int) -> "CallContext":
        """Return a copy with another budget."""
        return CallContext(replace(self.view, budget=budget), self.message_count, self.track)

    @property
    def fits(self) -> bool:
        """True if all messages and results before the call are within the budget."""
        total = self.view.history.totals[self.message_count - 1] if self.message_count else 0
        return total - self.unbudgeted_tokens <= self.view.budget

    @cached_property
    def result_turns(self) -> Ints:
        """The turn of each result."""
        return np.array(self.view.history.results.turn[: self.result_count], np.int64)

    @cached_property
    def call_tokens(self) -> Ints:
        """The tokens of each result's call."""
        return np.array(self.view.history.results.call_tokens[: self.result_count], np.int64)

    @cached_property
    def costs(self) -> Ints:
        """The tokens of each result together with its call."""
        return self.sizes + self.call_tokens

    @cached_property
    def sizes(self) -> Ints:
        """The tokens of each result without its call."""
        return np.array(self.view.history.results.tokens[: self.result_count], np.int64)

    @cached_property
    def has_call(self) -> NDArray[np.bool_]:
        """For each result, whether it has a call."""
        calls = np.array(self.view.history.results.call_event[: self.result_count], np.int64)
        has_call: NDArray[np.bool_] = calls != NO_CALL
        return has_call

    @cached_property
    def newest(self) -> list[int]:
        """The results of the latest turn, and all results after the latest assistant message."""
        is_newest = self.result_turns == self.turn - 1
        first_after_answer = bisect_left(self.view.history.results.message, self.last_assistant)
        is_newest[first_after_answer:] = True
        return [int(r) for r in np.flatnonzero(self.has_call & is_newest)]

    @cached_property
    def pinned(self) -> list[int]:
        """The pinned results that have a call."""
        pins, history = self.view.pins, self.view.history
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
        return self.track(self.message_count)

    def tracking_with(self, messages: int) -> Tracking:
        """Return a tracking of at least the first `messages` messages, but of none after the call.

        Use a tracking that exists already, if possible, because to make one all messages must be
        read. A replay has a tracking of this call, and the history's own tracking may fit.
        """
        if self.view.history.replay_tracking is not None:
            return self.tracking
        tracking = self.view.history.tracking
        if tracking is not None and messages <= tracking.message_count <= self.message_count:
            return tracking
        return self.track(messages)

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


def tracker(view: PolicyInput) -> Callable[[int], Tracking]:
    """Return a function `track(messages)` for the `CallContext`s of several model calls.

    It returns the tracking (tracked tokens, words and segments) of exactly the first `messages`
    messages of the view's history. Each call of the function must have at least as many messages as
    the one before, because a tracking only grows. Only a replay's tracking can return its earlier
    states.
    """
    earlier_tracking: Tracking | None = None

    def track(messages: int) -> Tracking:
        """Return the tracking of the first `messages` messages."""
        nonlocal earlier_tracking
        tracking = view.history.tracking
        has_later_messages = tracking is not None and tracking.message_count > messages
        can_go_back = view.history.replay_tracking is not None
        if can_go_back or not has_later_messages:
            return view.tracking_of(messages)
        # The history's tracking has later messages, too, so read the first messages again.
        earlier_tracking = earlier_tracking or Tracking()
        earlier_tracking.catch_up(view.history, messages, view.originals, view.counter)
        return earlier_tracking

    return track


def context_of_next_call(view: PolicyInput) -> CallContext:
    """Return the context of the next call."""
    return CallContext(view, len(view.history.roles), view.tracking_of)

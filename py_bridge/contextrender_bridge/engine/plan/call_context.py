"""One model call on a history, the next or an earlier one, as our own policies see it."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.history import NO_CALL
from contextrender_bridge.engine.history.token_tracking import Tracking
from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.selection import Substitute, TextSelection

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class CallContext:
    """The invocation that had the first `messages` messages of the view's history.

    That is the whole history, or what stood before an assistant message. `track(messages)` gives
    the tracking of exactly these.
    """

    view: PolicyInput
    messages: int
    track: Callable[[int], Tracking]

    @cached_property
    def turn(self) -> int:
        """The invocation's number."""
        history = self.view.history
        return history.turns[self.messages] if self.messages < len(history.roles) else history.turn

    @cached_property
    def results(self) -> int:
        """How many results there are."""
        return self.view.history.results_before(self.messages)

    @cached_property
    def last_assistant(self) -> int:
        """Position of the latest assistant message, or -1."""
        return self._latest("assistant")

    @cached_property
    def last_user(self) -> int:
        """Position of the current user message, or -1."""
        return self._latest("user")

    @cached_property
    def outside(self) -> frozenset[int]:
        """Positions that the budget does not charge."""
        leading = min(self.view.history.leading_system, self.messages)
        return frozenset([*range(leading), self.last_user]) - {-1}

    @cached_property
    def text_tokens(self) -> Ints:
        """Tokens of each message's text that the budget charges, by position."""
        tokens = np.array(self.view.history.text_tokens[: self.messages], np.int64)
        tokens[list(self.outside)] = 0
        return tokens

    @cached_property
    def outside_tokens(self) -> int:
        """Tokens of what the budget does not charge."""
        return sum(self.view.history.text_tokens[position] for position in self.outside)

    def seconds_since(self, messages: int) -> float:
        """Seconds since the earlier invocation that had so many messages, as far as is known."""
        times = self.view.history.times
        return times[self.messages - 1] - times[messages - 1] if messages else 0.0

    def within(self, budget: int) -> "CallContext":
        """The same under another budget."""
        return CallContext(replace(self.view, budget=budget), self.messages, self.track)

    @property
    def fits(self) -> bool:
        """Whether everything there is fits the budget."""
        whole = self.view.history.totals[self.messages - 1] if self.messages else 0
        return whole - self.outside_tokens <= self.view.budget

    @cached_property
    def result_turns(self) -> Ints:
        """The turn of each result."""
        return np.array(self.view.history.results.turn[: self.results], np.int64)

    @cached_property
    def calls(self) -> Ints:
        """Tokens of each result's call."""
        return np.array(self.view.history.results.call_tokens[: self.results], np.int64)

    @cached_property
    def costs(self) -> Ints:
        """Tokens of each result together with its call."""
        return self.sizes + self.calls

    @cached_property
    def sizes(self) -> Ints:
        """Tokens of each result without its call."""
        return np.array(self.view.history.results.tokens[: self.results], np.int64)

    @cached_property
    def asked(self) -> NDArray[np.bool_]:
        """Which results some call asked for."""
        calls = np.array(self.view.history.results.call_event[: self.results], np.int64)
        asked: NDArray[np.bool_] = calls != NO_CALL
        return asked

    @cached_property
    def newest(self) -> list[int]:
        """The results of the latest turn, and those that have come in since, however late."""
        late = bisect_left(self.view.history.results.message, self.last_assistant)
        newest = self.result_turns == self.turn - 1
        newest[late:] = True
        return [int(r) for r in np.flatnonzero(self.asked & newest)]

    @cached_property
    def pinned(self) -> list[int]:
        """The results that the caller wants kept, as far as some call asked for them."""
        pins, history = self.view.pins, self.view.history
        if not pins:
            return []
        results = history.results
        return [
            result
            for result in np.flatnonzero(self.asked).tolist()
            if pins.names(history.names[results.event[result]], results.call_id[result])
        ]

    @cached_property
    def tracking(self) -> Tracking:
        """Tracked tokens, words and segments as of now."""
        return self.track(self.messages)

    def tracking_with(self, messages: int) -> Tracking:
        """Tracking of at least the first `messages` messages, and of none that came later."""
        own = self.view.history.tracking
        if self.view.history.replay_tracking is not None:
            return self.tracking
        if own is not None and messages <= own.messages <= self.messages:
            return own
        return self.track(messages)

    @cached_property
    def said(self) -> dict[int, tuple[TextSelection, NDArray[np.bool_]]]:
        """Retained texts, by their `id`, and what tracked tokens stand in them, once looked up."""
        return {}

    @cached_property
    def excerpts(self) -> dict[tuple[int, tuple[int, ...]], Substitute]:
        """Excerpts by result and segments, once made."""
        return {}

    def _latest(self, role: str) -> int:
        roles = self.view.history.roles
        return next((p for p in range(self.messages - 1, -1, -1) if roles[p] == role), -1)


def tracker(view: PolicyInput) -> Callable[[int], Tracking]:
    """Tracking as of a number of messages: the history's own, or another if that is ahead."""
    behind: Tracking | None = None

    def track(messages: int) -> Tracking:
        nonlocal behind
        own = view.history.tracking
        if view.history.replay_tracking or own is None or own.messages <= messages:
            return view.tracking_of(messages)
        behind = behind or Tracking()
        behind.catch_up(view.history, messages, view.originals, view.counter)
        return behind

    return track


def next_call(view: PolicyInput) -> CallContext:
    """Return the context of the next call."""
    return CallContext(view, len(view.history.roles), view.tracking_of)

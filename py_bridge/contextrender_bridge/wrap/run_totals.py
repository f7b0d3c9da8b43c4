"""Adds up the usage of a wrapped agent's calls, and estimates their usage with full history."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from contextrender_bridge.asgi import Headers, Message, Send
from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.usage import (
    NOTHING_BILLED,
    FullUsageState,
    Usage,
    estimate_full_usage,
)
from contextrender_bridge.proxy.provider import UsageCapture
from contextrender_bridge.proxy.request import OWN_PREFIX, first

SUBAGENT_HEADERS = (b"x-claude-code-agent-id", b"thread-id", b"x-parent-session-id")
"""Headers of Claude Code, Codex and opencode that distinguish an agent's parallel histories."""


@dataclass
class RunTotals:
    """Sums over a run's model calls. Costs are in dollars, of the calls with a known price.

    `tokens_before` is the tokens of all full prompts, and `tokens_after` the tokens of the prompts
    that were sent. Both include the system prompt and tools. `longest_prompt` is the tokens of the
    longest full prompt, and `model` the last call's model. `unrecorded_calls` counts the calls that
    no session has, such as those for titles. `priced_calls` counts the calls with
    usage and a known price. If a model has no price of its own, `price_source` maps it to the model
    whose price was used.
    """

    calls: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    longest_prompt: int = 0
    model: str = ""
    unrecorded_calls: int = 0
    calls_without_usage: int = 0
    fail_open_count: int = 0
    cost: float = 0.0
    full_history_cost: float = 0.0
    priced_calls: int = 0
    models_without_price: set[str] = field(default_factory=set)
    price_source: dict[str, str] = field(default_factory=dict)

    def add_prompt(self, *, before: int, after: int) -> None:
        """Add the tokens of a full prompt and of the prompt that was sent instead."""
        self.tokens_before += before
        self.tokens_after += after
        self.longest_prompt = max(self.longest_prompt, before)


class TotalsCollector:
    """Collects the totals of a run, call by call. It is safe between threads."""

    def __init__(self) -> None:
        """Begin without calls. Use the prices that are installed."""
        self.totals = RunTotals()
        self.session = ""
        # The proxy's message about the last call that no provider answered.
        self.failure = ""
        # By the key of a history: the state of its estimate, and the time of its last call.
        self._usage_states: dict[tuple[str, ...], tuple[FullUsageState, float]] = {}
        self._lock = threading.Lock()
        self._prices = Prices.of()

    def add(
        self,
        key: tuple[str, ...],
        reply_headers: Mapping[str, str],
        usage: Usage | None,
        now: float | None = None,
    ) -> None:
        """Add one call to the totals: its tokens and its costs, as sent and with the full history.

        `key` identifies the history that the call belongs to. `reply_headers` are the proxy's own,
        without their prefix. If the provider reported no `usage`, add only the tokens that the
        headers report. Otherwise estimate the usage with the full history from it. `now` is in
        seconds of any monotonic clock.
        """
        now = time.monotonic() if now is None else now
        with self._lock:
            totals = self.totals
            before, after = _history_tokens(reply_headers)
            totals.calls += 1
            totals.fail_open_count += "fail-open" in reply_headers
            totals.unrecorded_calls += {"session", "fail-open"}.isdisjoint(reply_headers)
            if usage is None:
                totals.calls_without_usage += 1
                # A full prompt counts at least as many tokens as the prompt that was sent.
                totals.add_prompt(before=max(before, after), after=after)
                return
            # ContextRender may also add tokens, such as the recall tool's.
            omitted_tokens = before - after - int(reply_headers.get("tokens-added", 0))
            full_usage = self._full_usage(key, usage, omitted_tokens, now)
            totals.add_prompt(before=full_usage.prompt, after=usage.prompt)
            totals.model = usage.model
            self._add_cost(usage, full_usage)

    def _full_usage(
        self, key: tuple[str, ...], usage: Usage, omitted_tokens: int, now: float
    ) -> Usage:
        """Estimate the usage that the call would have had with the full history.

        The estimate needs the previous calls of the same history, because they decide what the
        provider has in its cache. So keep its state for the next call.
        """
        state, previous_time = self._usage_states.get(key, (NOTHING_BILLED, now))
        pause = now - previous_time
        full_usage, state = estimate_full_usage(state, usage, omitted_tokens, pause)
        self._usage_states[key] = state, now
        return full_usage

    def _add_cost(self, usage: Usage, full_usage: Usage) -> None:
        """Add the cost of a call, and the estimated cost of the same call with its full history.

        If the model has no price, only record its name.
        """
        price = self._prices.of_model(usage.model)
        if price is None:
            self.totals.models_without_price.add(usage.model)
            return
        if source := self._prices.price_source_of(usage.model):
            self.totals.price_source[usage.model] = source
        self.totals.priced_calls += 1
        self.totals.cost += price.of(usage)
        # A long prompt may have another price, which is part of the model's name in the usage.
        full_price = self._prices.of_model(full_usage.model) or price
        self.totals.full_history_cost += full_price.of(full_usage)


def _history_tokens(reply_headers: Mapping[str, str]) -> tuple[int, int]:
    """Return the tokens of the full history and of the part of it that was sent."""
    before = int(reply_headers.get("tokens-before", 0))
    if "full-history" in reply_headers:
        # The full history was sent. `tokens-after` is of a prompt that was only rendered.
        return before, before
    return before, int(reply_headers.get("tokens-after", 0))


class CallCapture(UsageCapture):
    """Forwards a reply, and adds its call to the totals once it has ended."""

    def __init__(self, collector: TotalsCollector, headers: Headers, send: Send) -> None:
        """Forward through `send`. `headers` are the request's."""
        super().__init__(send)
        self._collector = collector
        # Which of the agent's parallel histories the call belongs to; empty texts for the main one.
        self._history_ids = tuple(first(headers, name) for name in SUBAGENT_HEADERS)
        self._reply_headers: dict[str, str] = {}

    async def __call__(self, message: Message) -> None:
        """Forward one message of the reply. Keep the proxy's own headers of the first message."""
        if message["type"] == "http.response.start":
            self._reply_headers = {
                name[len(OWN_PREFIX) :].decode(): value.decode("latin-1")
                for name, value in message["headers"]
                if name.startswith(OWN_PREFIX)
            }
            session = self._reply_headers.get("session")
            # The report is about the main agent's session, so ignore calls by a subagent. Only
            # Claude Code's header shows this reliably.
            claude_agent_id, *_ = self._history_ids
            if session and not claude_agent_id:
                self._collector.session = session
        await super().__call__(message)

    def end(self) -> None:
        """Add the call to the totals after its reply has ended, unless the call was refused."""
        if self.is_accepted:
            key = (self._reply_headers.get("session", ""), *self._history_ids)
            self._collector.add(key, self._reply_headers, self.usage())

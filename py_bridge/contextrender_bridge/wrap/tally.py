"""What a wrapped agent's model calls used, and would have used with the whole history."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.whole_bill import NOTHING_KNOWN, Known, whole_bill
from contextrender_bridge.proxy.headers import OURS, Headers, first
from contextrender_bridge.proxy.heard import Heard
from contextrender_bridge.proxy.upstream import Message, Send

HELPERS = (b"x-claude-code-agent-id", b"thread-id", b"x-parent-session-id")


@dataclass
class Totals:
    """Sums over calls. Dollars are of the calls with usage and a known price.

    `before` and `after` are tokens of whole prompts and of those sent, system and tools included.
    """

    calls: int = 0
    before: int = 0
    after: int = 0
    unknown: int = 0
    failed_open: int = 0
    cost: float = 0.0
    whole_cost: float = 0.0
    priced: int = 0
    unpriced: set[str] = field(default_factory=set)
    priced_as: dict[str, str] = field(default_factory=dict)


class Tally:
    """Adds up calls as they end; safe between threads."""

    def __init__(self) -> None:
        """No call yet."""
        self.totals = Totals()
        self.session = ""
        self._lines: dict[tuple[str, ...], tuple[Known, float]] = {}
        self._lock = threading.Lock()
        self._prices = Prices.of()

    def add(
        self,
        key: tuple[str, ...],
        told: Mapping[str, str],
        usage: Usage | None,
        now: float | None = None,
    ) -> None:
        """A call of the history `key`: what the proxy told of it, and the provider."""
        with self._lock:
            totals = self.totals
            before = int(told.get("tokens-before", 0))
            # What goes whole is told with what would have been sent.
            after = before if "whole" in told else int(told.get("tokens-after", 0))
            totals.calls += 1
            # Where the provider tells no tokens of the prompt, they are the history's alone.
            sent = usage.prompt if usage else after
            totals.after += sent
            totals.failed_open += "fail-open" in told
            if usage is None:
                totals.before += sent + max(before - after, 0)
                totals.unknown += 1
                return
            now = time.monotonic() if now is None else now
            known, last = self._lines.get(key, (NOTHING_KNOWN, now))
            left_out = before - after - int(told.get("tokens-added", 0))
            whole, known = whole_bill(known, usage, left_out, now - last)
            self._lines[key] = known, now
            totals.before += whole.prompt
            price = self._prices.of_model(usage.model)
            if price is None:
                totals.unpriced.add(usage.model)
                return
            if other := self._prices.stands_as(usage.model):
                totals.priced_as[usage.model] = other
            totals.priced += 1
            totals.cost += price.of(usage)
            totals.whole_cost += price.of(whole)


class Listening(Heard):
    """Sends a reply on, and tells the tally of it once it has ended."""

    def __init__(self, tally: Tally, headers: Headers, send: Send) -> None:
        """`headers` are the request's."""
        super().__init__(send)
        self._tally = tally
        self._helper = tuple(first(headers, name) for name in HELPERS)
        self._told: dict[str, str] = {}

    async def __call__(self, message: Message) -> None:
        """One message of the reply."""
        if message["type"] == "http.response.start":
            self._told = {
                name[len(OURS) :].decode(): value.decode("latin-1")
                for name, value in message["headers"]
                if name.startswith(OURS)
            }
            if self._told.get("session") and not any(self._helper[:1]):
                self._tally.session = self._told["session"]
        await super().__call__(message)

    def end(self) -> None:
        """The reply has ended, or broken off. Refused calls cost nothing."""
        if self.is_taken:
            key = (self._told.get("session", ""), *self._helper)
            self._tally.add(key, self._told, self.usage())

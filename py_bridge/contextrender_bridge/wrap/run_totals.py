"""What a wrapped agent's model calls used, and would have used with the whole history; and the line
that tells it at the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from contextrender_bridge.asgi import Headers, Message, Send
from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.usage import (
    NOTHING_BILLED,
    FullUsageState,
    Usage,
    estimate_full_usage,
)
from contextrender_bridge.base.worth import pays_from, rule_of
from contextrender_bridge.client.replies import ToolView
from contextrender_bridge.proxy.routing import OURS, first
from contextrender_bridge.proxy.upstream import UsageCapture

HELPERS = (b"x-claude-code-agent-id", b"thread-id", b"x-parent-session-id")


@dataclass
class Totals:
    """Sums over calls. Dollars are of the calls with usage and a known price.

    `before` and `after` are tokens of whole prompts and of those sent, system and tools included;
    `longest` are those of the longest whole one, and `model` is the last call's.
    """

    calls: int = 0
    before: int = 0
    after: int = 0
    longest: int = 0
    model: str = ""
    unknown: int = 0
    failed_open: int = 0
    cost: float = 0.0
    whole_cost: float = 0.0
    priced: int = 0
    unpriced: set[str] = field(default_factory=set)
    price_source: dict[str, str] = field(default_factory=dict)


class Tally:
    """Adds up calls as they end; safe between threads."""

    def __init__(self) -> None:
        self.totals = Totals()
        self.session = ""
        self.failure = ""
        """What the proxy said of the last call that no provider answered."""
        self._lines: dict[tuple[str, ...], tuple[FullUsageState, float]] = {}
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
            after = before if "full-history" in told else int(told.get("tokens-after", 0))
            totals.calls += 1
            # Where the provider tells no tokens of the prompt, they are the history's alone.
            sent = usage.prompt if usage else after
            totals.after += sent
            totals.failed_open += "fail-open" in told
            if usage is None:
                totals.before += sent + max(before - after, 0)
                totals.longest = max(totals.longest, sent + max(before - after, 0))
                totals.unknown += 1
                return
            now = time.monotonic() if now is None else now
            known, last = self._lines.get(key, (NOTHING_BILLED, now))
            left_out = before - after - int(told.get("tokens-added", 0))
            whole, known = estimate_full_usage(known, usage, left_out, now - last)
            self._lines[key] = known, now
            totals.before += whole.prompt
            totals.longest = max(totals.longest, whole.prompt)
            totals.model = usage.model
            price = self._prices.of_model(usage.model)
            if price is None:
                totals.unpriced.add(usage.model)
                return
            if other := self._prices.price_source_of(usage.model):
                totals.price_source[usage.model] = other
            totals.priced += 1
            totals.cost += price.of(usage)
            totals.whole_cost += (self._prices.of_model(whole.model) or price).of(whole)


class Listening(UsageCapture):
    """Sends a reply on, and tells the tally of it once it has ended."""

    def __init__(self, tally: Tally, headers: Headers, send: Send) -> None:
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


def closing_line(totals: Totals, link: str, *, observing: bool, failure: str = "") -> str:
    """Return one line for the person at the terminal; `failure` says why no call was answered."""
    if not totals.calls:
        return f"no model call came through{failure and f': {failure}'}; {link}"
    said = [
        f"{totals.calls} {'call' if totals.calls == 1 else 'calls'}",
        _tokens(totals, observing),
    ]
    said += _cost(totals, observing)
    if totals.failed_open:
        said.append(f"{totals.failed_open} went through unchanged because the service failed")
    return "; ".join([*said, link])


@dataclass
class Declared:
    """Of the tools that a session's last request declared: how many, their tokens, those unused."""

    tools: int = 0
    tokens: int = 0
    never_called: int = 0
    tokens_never_called: int = 0

    @classmethod
    def among(cls, tools: Sequence[ToolView]) -> Declared:
        """Without our own."""
        told = [one for one in tools if one["declared"] and "contextrender" not in one["name"]]
        unused = [one["declared"] for one in told if not one["results"]]
        return cls(len(told), sum(one["declared"] for one in told), len(unused), sum(unused))


def declared_line(declared: Declared) -> str:
    """What people pay for tools that they never use."""
    were = "was" if declared.never_called == 1 else "were"
    return (
        f"the declarations of its {declared.tools} tools are about {declared.tokens:,} tokens of "
        f"every request; {declared.never_called} {were} never called "
        f"({declared.tokens_never_called:,} tokens)"
    )


def closing_json(totals: Totals, declared: Declared, link: str) -> dict[str, Any]:
    """The same for programs. Dollars are null where no price is known."""
    known = totals.priced > 0
    return {
        "calls": totals.calls,
        "tokens_before": totals.before,
        "tokens_after": totals.after,
        "longest_prompt": totals.longest,
        "pays_from": pays_from(rule_of([totals.model]), totals.model),
        "tokens_kept_away": totals.before - totals.after,
        "cost": round(totals.cost, 6) if known else None,
        "cost_of_whole_history": round(totals.whole_cost, 6) if known else None,
        "calls_without_usage": totals.unknown,
        "models_without_price": sorted(totals.unpriced),
        "price_source": totals.price_source,
        "fail_open": totals.failed_open,
        "declared": asdict(declared),
        "console": link,
    }


def _tokens(totals: Totals, observing: bool) -> str:
    if observing:
        return f"{totals.before:,} prompt tokens, nothing changed"
    away = totals.before - totals.after
    share = f"{away / totals.before:.0%}" if totals.before else "0%"
    if not away and not totals.failed_open:
        share += ", because your history stayed under the budget"
    told = f"{away:,} of {totals.before:,} prompt tokens left out ({share})"
    least = pays_from(rule_of([totals.model]), totals.model)
    if totals.longest < least:
        told += f"; it pays from prompts of about {least:,} tokens, and the longest had "
        told += f"{totals.longest:,}"
    return told


def _cost(totals: Totals, observing: bool) -> list[str]:
    said = []
    if totals.priced:
        said.append(_compared(totals, observing))
    if totals.unknown:
        said.append(f"{totals.unknown} without usage in the reply")
    said += [f"{model} at the price of {other}" for model, other in totals.price_source.items()]
    if totals.unpriced:
        names = ", ".join(sorted(name or "an unnamed model" for name in totals.unpriced))
        said.append(f"no price known of {names}: `contextrender price` sets one")
    return said


def _compared(totals: Totals, observing: bool) -> str:
    cost, whole = totals.cost, totals.whole_cost
    if observing or abs(cost - whole) < 0.00005:
        return f"it cost {_dollars(cost)}"
    told = f"it cost {_dollars(cost)} instead of about {_dollars(whole)} with the whole history"
    more = f": {_dollars(cost - whole)} MORE, since the provider's cache was used less"
    return told + (more if cost > whole else "")


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"

"""What a provider says that a model call used, read from its reply in any of the three APIs; and an
estimate of what the call would have used with its whole history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from contextrender_bridge.base import wire
from contextrender_bridge.base.model_table import rated, window_of

LIFETIME: Final = 300.0
"""Seconds a provider's cache keeps what is not asked for again."""

BLOCK: Final = 128
"""Tokens that a cache without writes on the bill counts in."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one model call as they are billed, or their sums over some `calls`.

    `fresh` is what the cache had no part in, `read` came from it, `written` was put there
    (`written_long` for an hour; the others for minutes), `output` is what the model wrote,
    `embedded` what was embedded for it.
    """

    model: str = ""
    fresh: int = 0
    read: int = 0
    written: int = 0
    written_long: int = 0
    output: int = 0
    calls: int = 1
    embedded: int = 0

    @classmethod
    def of_prompt(cls, prompt: int, read: int = 0, output: int = 0, embedded: int = 0) -> Usage:
        """Of a call with so many prompt tokens, of which the cache had `read`."""
        return cls(fresh=prompt - read, read=read, output=output, embedded=embedded)

    def plus(self, other: Usage) -> Usage:
        """The sum of both, for this one's model."""
        names = [field.name for field in fields(self) if field.name != "model"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(self, **sums)

    @property
    def prompt(self) -> int:
        """All of the prompt."""
        return self.fresh + self.read + self.written + self.written_long


NOTHING_USED: Final = Usage(calls=0)


def read_usage(kind: str, body: bytes) -> Usage | None:
    """The usage in a whole reply of that content type; None if it tells none."""
    model, found = "", {}
    for part in _parts(kind, body):
        holder = part.get("response") or part.get("message") or part
        if not isinstance(holder, Mapping):
            continue
        model = str(holder.get("model") or model)
        if tier := holder.get("service_tier"):
            found["service_tier"] = tier
        usage = holder.get("usage")
        if isinstance(usage, Mapping):
            found.update({name: value for name, value in usage.items() if value is not None})
    return usage_of(model, found)


def usage_of(model: str, told: Mapping[str, Any]) -> Usage | None:
    """From the `usage` of any of the three APIs; None where it has no counts.

    The model's name gets the call's rates (base.rates).
    """
    usage = _counts_of(model, told)
    return usage and replace(usage, model=rated(model, usage.prompt, told))


def _counts_of(model: str, told: Mapping[str, Any]) -> Usage | None:
    if "prompt_tokens" in told:
        cached = _cached(told.get("prompt_tokens_details"))
        return Usage(model, _count(told, "prompt_tokens") - cached, cached, output=_written(told))
    if "input_tokens" not in told:
        return None
    if "cache_read_input_tokens" in told or "cache_creation_input_tokens" in told:
        creation = told.get("cache_creation")
        long = _count(creation, "ephemeral_1h_input_tokens")
        written = _count(told, "cache_creation_input_tokens")
        return Usage(
            model,
            _count(told, "input_tokens"),
            _count(told, "cache_read_input_tokens"),
            max(written - long, 0),
            long,
            _written(told),
        )
    cached = _cached(told.get("input_tokens_details"))
    return Usage(model, _count(told, "input_tokens") - cached, cached, output=_written(told))


def _parts(kind: str, body: bytes) -> Iterator[Mapping[str, Any]]:
    """The reply, or those of its events that may tell usage."""
    if "event-stream" in kind:
        texts = [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
    else:
        texts = [body]
    for text in texts:
        if b'"usage"' not in text:
            continue
        try:
            value = wire.loads(text)
        except ValueError:
            continue
        if isinstance(value, Mapping):
            yield value


def _count(told: Any, name: str) -> int:
    value = told.get(name) if isinstance(told, Mapping) else None
    return value if isinstance(value, int) and value > 0 else 0


def _cached(details: Any) -> int:
    return _count(details, "cached_tokens")


def _written(told: Mapping[str, Any]) -> int:
    return _count(told, "output_tokens") or _count(told, "completion_tokens")


@dataclass(slots=True, frozen=True)
class Billed:
    """What the next call is told of a history's calls before it.

    `prompt` are the tokens of the last whole prompt, `away` all that was ever left out; whether the
    provider's cache is at work here (`caches`), and bills what is put there (`writes`).
    """

    prompt: int = 0
    away: int = 0
    caches: bool = False
    writes: bool = False


NOTHING_BILLED: Final = Billed()


def whole_bill(known: Billed, usage: Usage, left_out: int, pause: float) -> tuple[Usage, Billed]:
    """The whole history's usage, and what the next call is told; `pause` seconds since the last.

    The whole history's prompts are the provider's count plus the tokens that were left out, at most
    the model's window, and of each, as much is taken from the cache as the whole prompt before it
    had, where the provider's cache was at work in this history at all and the pause was shorter
    than its lifetime.
    """
    left_out = max(left_out, 0)
    full = usage.prompt + left_out
    if window := window_of(usage.model):
        full = max(min(full, window), usage.prompt)
    writes = known.writes or usage.written + usage.written_long > 0
    caches = known.caches or writes or usage.read > 0
    now = Billed(full, known.away + left_out, caches, writes)
    model = rated(usage.model, full)
    if not now.away:
        return usage, now
    read = min(known.prompt, full) if now.caches and pause < LIFETIME else 0
    if not now.writes:
        read -= read % BLOCK
        return replace(usage, model=model, fresh=full - read, read=read), now
    fresh = min(usage.fresh, full - read)
    rest = full - read - fresh
    long = rest if usage.written_long > usage.written else 0
    written = rest - long
    full_usage = replace(usage, model=model, fresh=fresh, read=read, written=written)
    return replace(full_usage, written_long=long), now

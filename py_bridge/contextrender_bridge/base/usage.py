"""What a model call used, and an estimate of what it would have used with its whole history."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

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

"""What a billed model call would have used with its whole history: an estimate.

The whole history's prompts are the provider's count plus the tokens that were left out, at most
the model's window, and of each, as much is taken from the cache as the whole prompt before it had,
where the provider's cache was at work in this history at all and the pause was shorter than its
lifetime.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from contextrender_bridge.base.model_table import window_of
from contextrender_bridge.base.usage import Usage

LIFETIME: Final = 300.0
"""Seconds a provider's cache keeps what is not asked for again."""

BLOCK: Final = 128
"""Tokens that a cache without writes on the bill counts in."""


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
    """The whole history's usage, and what the next call is told; `pause` seconds since the last."""
    left_out = max(left_out, 0)
    full = usage.prompt + left_out
    if window := window_of(usage.model):
        full = max(min(full, window), usage.prompt)
    writes = known.writes or usage.written + usage.written_long > 0
    caches = known.caches or writes or usage.read > 0
    now = Billed(full, known.away + left_out, caches, writes)
    if not now.away:
        return usage, now
    read = min(known.prompt, full) if now.caches and pause < LIFETIME else 0
    if not now.writes:
        read -= read % BLOCK
        return replace(usage, fresh=full - read, read=read), now
    fresh = min(usage.fresh, full - read)
    rest = full - read - fresh
    long = rest if usage.written_long > usage.written else 0
    return replace(usage, fresh=fresh, read=read, written=rest - long, written_long=long), now

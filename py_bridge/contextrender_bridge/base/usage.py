"""The usage of a model call, and an estimate of its usage with the full history."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

from contextrender_bridge.base.model_table import rated, window_of

LIFETIME: Final = 300.0
"""Seconds after which a provider's cache drops a prompt that is not used again."""

BLOCK: Final = 128
"""The unit in tokens of caches whose writes are not billed."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one model call as they are billed, or their sums over some `calls`.

    `cache_write` has the tokens that the cache keeps for minutes, `cache_write_1h` those that it
    keeps for an hour. `embedded` has the tokens that were embedded for the call.
    """

    model: str = ""
    uncached: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    output: int = 0
    calls: int = 1
    embedded: int = 0

    @classmethod
    def of_prompt(
        cls, prompt: int, cache_read: int = 0, output: int = 0, embedded: int = 0
    ) -> Usage:
        """Return the usage of a call with `prompt` tokens, `cache_read` of them from the cache."""
        return cls(
            uncached=prompt - cache_read, cache_read=cache_read, output=output, embedded=embedded
        )

    def plus(self, other: Usage) -> Usage:
        """Return the sum of both, with this one's model."""
        names = [field.name for field in fields(self) if field.name != "model"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(self, **sums)

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.uncached + self.cache_read + self.cache_write + self.cache_write_1h


NOTHING_USED: Final = Usage(calls=0)


@dataclass(slots=True, frozen=True)
class FullUsageState:
    """The state of a history's earlier calls that the estimate of the next one needs.

    `prompt` has the tokens of the last full prompt, `omitted_total` all that were ever omitted.
    `caches` is true if the provider's cache works for this history, `writes` if it bills writes.
    """

    prompt: int = 0
    omitted_total: int = 0
    caches: bool = False
    writes: bool = False


NOTHING_BILLED: Final = FullUsageState()


def estimate_full_usage(
    previous: FullUsageState, usage: Usage, omitted_tokens: int, pause: float
) -> tuple[Usage, FullUsageState]:
    """Estimate the full history's usage; return it with the state for the next call.

    The full prompt has the tokens that the provider counted plus the omitted ones, at most the
    model's window. What the previous full prompt had is taken as read from the cache, if the cache
    works for this history and the `pause` since then, in seconds, was shorter than its lifetime.
    """
    omitted_tokens = max(omitted_tokens, 0)
    full = usage.prompt + omitted_tokens
    if window := window_of(usage.model):
        full = max(min(full, window), usage.prompt)
    writes = previous.writes or usage.cache_write + usage.cache_write_1h > 0
    caches = previous.caches or writes or usage.cache_read > 0
    state = FullUsageState(full, previous.omitted_total + omitted_tokens, caches, writes)
    model = rated(usage.model, full)
    if not state.omitted_total:
        return usage, state
    cache_read = min(previous.prompt, full) if state.caches and pause < LIFETIME else 0
    if not state.writes:
        cache_read -= cache_read % BLOCK
        return replace(usage, model=model, uncached=full - cache_read, cache_read=cache_read), state
    uncached = min(usage.uncached, full - cache_read)
    new_tokens = full - cache_read - uncached
    cache_write_1h = new_tokens if usage.cache_write_1h > usage.cache_write else 0
    cache_write = new_tokens - cache_write_1h
    full_usage = replace(
        usage, model=model, uncached=uncached, cache_read=cache_read, cache_write=cache_write
    )
    return replace(full_usage, cache_write_1h=cache_write_1h), state

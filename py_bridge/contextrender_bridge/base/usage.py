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
        """Return the usage of a call with `prompt` tokens, `read` of them from the cache."""
        return cls(fresh=prompt - read, read=read, output=output, embedded=embedded)

    def plus(self, other: Usage) -> Usage:
        """Return the sum of both, with this one's model."""
        names = [field.name for field in fields(self) if field.name != "model"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(self, **sums)

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.fresh + self.read + self.written + self.written_long


NOTHING_USED: Final = Usage(calls=0)


@dataclass(slots=True, frozen=True)
class FullUsageState:
    """The state of a history's earlier calls that the estimate of the next one needs.

    `prompt` is the tokens of the last full prompt, `omitted_total` all that was ever omitted.
    `caches` tells whether the provider's cache works for this history, `writes` whether writes to
    it are billed.
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
    writes = previous.writes or usage.written + usage.written_long > 0
    caches = previous.caches or writes or usage.read > 0
    state = FullUsageState(full, previous.omitted_total + omitted_tokens, caches, writes)
    model = rated(usage.model, full)
    if not state.omitted_total:
        return usage, state
    cache_read = min(previous.prompt, full) if state.caches and pause < LIFETIME else 0
    if not state.writes:
        cache_read -= cache_read % BLOCK
        return replace(usage, model=model, fresh=full - cache_read, read=cache_read), state
    uncached = min(usage.fresh, full - cache_read)
    new_tokens = full - cache_read - uncached
    cache_write_1h = new_tokens if usage.written_long > usage.written else 0
    cache_write = new_tokens - cache_write_1h
    full_usage = replace(usage, model=model, fresh=uncached, read=cache_read, written=cache_write)
    return replace(full_usage, written_long=cache_write_1h), state

"""A model call's usage, an estimate of its usage with the full history, and the reply to it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.model_table import add_rates, window_of

LIFETIME: Final = 300.0
"""Seconds after which a provider's cache drops a prompt that is not used again."""

CACHE_BLOCK: Final = 128
"""OpenAI's cache reads whole blocks of this many tokens. Its writes are not billed."""

TOKEN_FIELDS: Final = ("uncached", "cache_read", "cache_write", "cache_write_1h", "output")
"""The provider's counts of a call, in the order in which a call's record stores them."""

COUNT_LIMIT: Final = 2**40
"""All counts, and all times in seconds since 1970, are below this."""


ERROR_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{0,80}")
"""A provider's code or type of an error, possibly empty."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one model call as they are billed, or their sums over several `calls`.

    The provider's cache keeps the tokens of `cache_write` for minutes, those of `cache_write_1h`
    for an hour. `embedded` counts the tokens that the service embedded for the call.
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
    ) -> "Usage":
        """Return the usage of a call with `prompt` tokens.

        `cache_read` of these were read from the cache, the others are uncached.
        """
        return cls(
            uncached=prompt - cache_read, cache_read=cache_read, output=output, embedded=embedded
        )

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum of both usages, with the model of this one."""
        counts = [field.name for field in fields(self) if field.name != "model"]
        sums = {count: getattr(self, count) + getattr(other, count) for count in counts}
        return replace(self, **sums)

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.uncached + self.cache_read + self.cache_write + self.cache_write_1h

    def to_report(self) -> dict[str, Any]:
        """Return the fields with which `record_usage` reports this usage."""
        return {"model": self.model} | {name: getattr(self, name) for name in TOKEN_FIELDS}


def are_counts(values: Iterable[object]) -> bool:
    """Return whether these are whole numbers from 0 and below `COUNT_LIMIT`."""
    return all(type(value) is int and 0 <= value < COUNT_LIMIT for value in values)


NOTHING_USED: Final = Usage(calls=0)


@dataclass(slots=True, frozen=True)
class FullUsageState:
    """The figures that `estimate_full_usage` passes from one call of a history to the next.

    - `prompt`: the tokens of the last full prompt.
    - `omitted_total`: the sum of the tokens that the calls so far omitted.
    - `uses_cache`: the provider has used its cache for this history.
    - `bills_writes`: the provider has billed a cache write, as Anthropic does and OpenAI does not.
    """

    prompt: int = 0
    omitted_total: int = 0
    uses_cache: bool = False
    bills_writes: bool = False


NOTHING_BILLED: Final = FullUsageState()


def estimate_full_usage(
    previous: FullUsageState, usage: Usage, omitted_tokens: int, pause: float
) -> tuple[Usage, FullUsageState]:
    """Estimate what usage a call would have had with the full history.

    Return the estimate, and the state for the history's next call. `usage` is the provider's count
    of the prompt that was sent, and `pause` the number of seconds since the previous call.

    The full prompt is estimated as the sent prompt plus `omitted_tokens`, at most the model's
    window. The previous full prompt counts as read from the cache if the provider has used its
    cache for this history and the pause is below `LIFETIME`. If no call so far has omitted a token,
    return `usage` itself.
    """
    # Estimate the full prompt, and update the state.
    omitted_tokens = max(omitted_tokens, 0)
    full_prompt = usage.prompt + omitted_tokens
    if window := window_of(usage.model):
        full_prompt = max(min(full_prompt, window), usage.prompt)
    bills_writes = previous.bills_writes or usage.cache_write + usage.cache_write_1h > 0
    uses_cache = previous.uses_cache or bills_writes or usage.cache_read > 0
    omitted_total = previous.omitted_total + omitted_tokens
    state = FullUsageState(full_prompt, omitted_total, uses_cache, bills_writes)
    if not omitted_total:
        return usage, state
    # A longer prompt may have a higher price, which `add_rates` puts into the model's name.
    usage = replace(usage, model=add_rates(usage.model, full_prompt))
    # Divide the full prompt into cached and other tokens, as the provider would bill them.
    cache_read = 0
    if uses_cache and pause < LIFETIME:
        cache_read = min(previous.prompt, full_prompt)
    if not bills_writes:
        # OpenAI: the cache reads only whole blocks, and every other token is uncached.
        cache_read -= cache_read % CACHE_BLOCK
        return replace(usage, uncached=full_prompt - cache_read, cache_read=cache_read), state
    # Anthropic: the tokens after the last cache breakpoint are uncached, as many as in the call
    # itself. The tokens before the breakpoint that are not read from the cache are written to it,
    # with the same lifetime as most of the call's own writes.
    uncached = min(usage.uncached, full_prompt - cache_read)
    written_tokens = full_prompt - cache_read - uncached
    is_for_an_hour = usage.cache_write_1h > usage.cache_write
    full_usage = replace(
        usage,
        uncached=uncached,
        cache_read=cache_read,
        cache_write=0 if is_for_an_hour else written_tokens,
        cache_write_1h=written_tokens if is_for_an_hour else 0,
    )
    return full_usage, state


@dataclass(slots=True, frozen=True)
class ProviderReply:
    """The milliseconds until the first and the last byte of a reply, its HTTP status, its error.

    `error` is the provider's code of a failure, never its text. Fields are 0 and empty if unknown.
    """

    first_byte_ms: int = 0
    reply_ms: int = 0
    status: int = 0
    error: str = ""

    @classmethod
    def of(cls, values: object) -> "ProviderReply":
        """Return the reply with these fields. Raise InvalidRequest if one is unknown or invalid."""
        if not isinstance(values, Mapping) or set(values).difference(REPLY_FIELDS):
            raise InvalidRequest(f"a provider's reply has {', '.join(REPLY_FIELDS)}")
        reply = cls(**values)
        if not (isinstance(reply.error, str) and ERROR_CODE.fullmatch(reply.error)):
            raise InvalidRequest("error must be the code of a provider's error, not its text")
        if not are_counts((reply.first_byte_ms, reply.reply_ms, reply.status)):
            raise InvalidRequest("milliseconds and status must be whole numbers from 0")
        return reply

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are known."""
        return {name: value for name, value in asdict(self).items() if value}


REPLY_FIELDS: Final = tuple(field.name for field in fields(ProviderReply))
NO_REPLY: Final = ProviderReply()

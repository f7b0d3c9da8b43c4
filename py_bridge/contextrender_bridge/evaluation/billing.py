"""Computes what providers bill for a run's prompts, with OpenAI's and Anthropic's prompt caches.

The rules, with their sources, are in docs/evaluation.md, Provider's bill.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple, Protocol

from contextrender_bridge.base.usage import LIFETIME, NOTHING_USED, Usage
from contextrender_bridge.engine.text.tokens import TokenCounter, call_parts, json_text


class Unit(NamedTuple):
    """A part of a prompt that is cached as a whole: a message's text, its calls, or tool schemas.

    `identity` is hashable and equal for equal parts. `blocks` counts its content blocks.
    """

    identity: object
    tokens: int
    blocks: int = 1


@dataclass(slots=True, frozen=True)
class PromptSize:
    """The tokens of a prompt, and those of its beginning that the previous prompt also had."""

    tokens: int
    cached: int


class Prompts:
    """The tokens of one run's prompts. Every text is counted once."""

    def __init__(self, counter: TokenCounter, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        """Count with `counter`. The schemas of `tools` precede every billed prompt."""
        self._counter = counter
        self._texts: dict[str, int] = {}
        self._calls: dict[tuple[str, str], int] = {}
        schemas = json_text(list(tools))
        self._tools = [Unit(schemas, counter.text(schemas))] if tools else []

    def send(
        self, previous: Sequence[Unit], messages: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Unit], PromptSize]:
        """Return the units of a prompt, and its size compared with the previous prompt's units."""
        units = [unit for message in messages for unit in self._units(message)]
        cached = 0
        for previous_unit, unit in zip(previous, units, strict=False):
            if previous_unit.identity != unit.identity:
                break
            cached += unit.tokens
        return units, PromptSize(sum(unit.tokens for unit in units), cached)

    def first_units(self, units: Sequence[Unit], max_tokens: int) -> list[Unit]:
        """Return the first units that fit into `max_tokens`."""
        ends = accumulate(unit.tokens for unit in units)
        return [unit for unit, end in zip(units, ends, strict=True) if end <= max_tokens]

    def with_tools(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Return the units that a provider receives: the tools' schemas, then the prompt."""
        return [*self._tools, *units]

    def tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """Return the tokens of messages, as the engine counts them."""
        return sum(unit.tokens for message in messages for unit in self._units(message))

    def _units(self, message: Mapping[str, Any]) -> list[Unit]:
        role, content, calls = (message.get(key) for key in ("role", "content", "tool_calls"))
        units: list[Unit] = []
        tokens = self._text_tokens(role, content)
        if tokens or role != "assistant":
            text = content if isinstance(content, str) else json_text(content)
            units.append(Unit((role, text, message.get("tool_call_id")), tokens))
        if calls:
            identity = tuple((call.get("id"), *call_parts(call)) for call in calls)
            units.append(Unit(identity, sum(map(self._call_tokens, calls)), len(calls)))
        return units

    def _text_tokens(self, role: object, content: object) -> int:
        if not isinstance(content, str) or not content:
            return self._counter.message({"role": role, "content": content})
        if content not in self._texts:
            self._texts[content] = self._counter.message({"content": content})
        return self._texts[content]

    def _call_tokens(self, call: Mapping[str, Any]) -> int:
        parts = call_parts(call)
        if parts not in self._calls:
            self._calls[parts] = self._counter.call(call)
        return self._calls[parts]


MIN_CACHED_TOKENS: Final = 1_024
"""The smallest beginning of a prompt, in tokens, that a provider caches."""
OPENAI_BLOCK: Final = 128
"""OpenAI caches beginnings whose tokens are a multiple of this."""
ANTHROPIC_LOOKBACK: Final = 20
"""Anthropic searches this many content blocks before a breakpoint for a cached beginning."""


class ProviderCache(Protocol):
    """A provider's cache along one run."""

    def bill(self, units: Sequence[Unit], time: float = 0.0) -> Usage:
        """Return the usage of the next prompt, sent at `time` seconds, which never decreases."""


class OpenAICache:
    """OpenAI's cache: every prompt is cached, and the longest known beginning is read from it."""

    def __init__(self) -> None:
        self._last_uses: dict[int, float] = {}

    def bill(self, units: Sequence[Unit], time: float = 0.0) -> Usage:
        """See `Cache`."""
        cached_tokens = tokens = 0
        is_unbroken = True
        for prefix, unit in zip(_prefix_hashes(units), units, strict=True):
            tokens += unit.tokens
            is_unbroken = is_unbroken and _is_alive(self._last_uses.get(prefix), time)
            cached_tokens = tokens if is_unbroken else cached_tokens
            self._last_uses[prefix] = time
        read = (
            cached_tokens // OPENAI_BLOCK * OPENAI_BLOCK
            if cached_tokens >= MIN_CACHED_TOKENS
            else 0
        )
        return Usage(uncached=tokens - read, cache_read=read)


class AnthropicCache:
    """Anthropic's cache: beginnings up to a breakpoint are written to it and read from it.

    One breakpoint is at the end of every prompt. With `quarters`, three more are at the quarters of
    the last prompt that did not continue the previous one.
    """

    def __init__(self, *, quarters: bool) -> None:
        self._quarters = quarters
        self._last_uses: dict[int, float] = {}
        self._last_prefix = 0
        self._quarter_units: Sequence[int] = ()

    def bill(self, units: Sequence[Unit], time: float = 0.0) -> Usage:
        """See `Cache`."""
        if not units:
            return Usage()
        prefixes = _prefix_hashes(units)
        sizes = list(accumulate(unit.tokens for unit in units))
        blocks = list(accumulate(unit.blocks for unit in units))
        breakpoints = self._breakpoints(prefixes, sizes)
        read = max(
            (self._last_cached(end, prefixes, blocks, time) for end in breakpoints), default=-1
        )
        for end in breakpoints:
            if sizes[end] >= MIN_CACHED_TOKENS:
                self._last_uses[prefixes[end]] = time
        if read >= 0:
            self._last_uses[prefixes[read]] = time
        cached = sizes[read] if read >= 0 else 0
        cache_write = sizes[-1] - cached if sizes[-1] >= MIN_CACHED_TOKENS else 0
        return Usage("", sizes[-1] - cached - cache_write, cached, cache_write)

    def _breakpoints(self, prefixes: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """Return the indexes of the units that end at a breakpoint."""
        if self._quarters and self._last_prefix not in prefixes:
            targets = [sizes[-1] * quarter / 4 for quarter in (1, 2, 3)]
            ends = [sum(size <= target for size in sizes) - 1 for target in targets]
            self._quarter_units = sorted({end for end in ends if end >= 0})
        self._last_prefix = prefixes[-1]
        return sorted({*self._quarter_units, len(prefixes) - 1})

    def _last_cached(
        self, end: int, places: Sequence[int], blocks: Sequence[int], time: float
    ) -> int:
        """Return the last unit, at most `ANTHROPIC_LOOKBACK` blocks back, up to which is cached.

        Return -1 if there is none.
        """
        for unit in range(end, -1, -1):
            if blocks[end] - blocks[unit] > ANTHROPIC_LOOKBACK:
                break
            if _is_alive(self._last_uses.get(places[unit]), time):
                return unit
        return -1


RULES: Final = ("openai", "anthropic", "anthropic_end")
"""Billing rules: OpenAI's, Anthropic's with breakpoints at the quarters, and with only the last."""


def new_caches() -> dict[str, ProviderCache]:
    """Return a new cache for each rule."""
    return {
        "openai": OpenAICache(),
        "anthropic": AnthropicCache(quarters=True),
        "anthropic_end": AnthropicCache(quarters=False),
    }


def empty_bills() -> dict[str, Usage]:
    """Return a usage of zero for every rule."""
    return dict.fromkeys(RULES, NOTHING_USED)


def add_bills(bills: Mapping[str, Usage], other: Mapping[str, Usage]) -> dict[str, Usage]:
    """Return the sums of both for every rule."""
    return {rule: bills[rule].plus(other[rule]) for rule in RULES}


class Biller:
    """Adds up the usage of a run's prompts by every billing rule."""

    def __init__(self, prompts: Prompts) -> None:
        """Bill with new caches. `prompts` has the tool schemas that precede every prompt."""
        self._prompts = prompts
        self._caches = new_caches()
        self.bills = empty_bills()

    def add(self, units: Sequence[Unit], time: float) -> None:
        """Bill the next prompt, sent at `time` seconds."""
        prompt = self._prompts.with_tools(units)
        self.bills = {
            rule: self.bills[rule].plus(cache.bill(prompt, time))
            for rule, cache in self._caches.items()
        }


def _prefix_hashes(units: Sequence[Unit]) -> list[int]:
    """Return for each unit a hash of the prompt up to and including it."""
    return list(accumulate(units, lambda before, unit: hash((before, unit.identity)), initial=0))[
        1:
    ]


def _is_alive(last_use: float | None, time: float) -> bool:
    return last_use is not None and time - last_use <= LIFETIME

"""Prompts of one run as providers bill them: OpenAI's prompt cache and Anthropic's.

The rules, with their sources, are in docs/evaluation.md, Provider's bill.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, NamedTuple, Protocol

from contextrender_bridge.base.usage import LIFETIME, NOTHING_USED, Usage
from contextrender_bridge.engine.text.tokens import TokenCounter, call_parts, json_text


class Unit(NamedTuple):
    """What of a prompt is cached as a whole: a message's text, its calls, or the tools' schemas.

    `identity` is hashable and tells one from another; `blocks` are the content blocks it is sent
    as.
    """

    identity: object
    tokens: int
    blocks: int = 1


@dataclass(slots=True, frozen=True)
class Sent:
    """One prompt: its tokens, and those of them that the previous prompt began with."""

    tokens: int
    cached: int


class Prompts:
    """The prompts of one run, in order; every text is counted once."""

    def __init__(self, counter: TokenCounter, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        """Counts with `counter`; the schemas of `tools` stand before every prompt billed."""
        self._counter = counter
        self._texts: dict[str, int] = {}
        self._calls: dict[tuple[str, str], int] = {}
        schemas = json_text(list(tools))
        self._tools = [Unit(schemas, counter.text(schemas))] if tools else []

    def send(
        self, previous: Sequence[Unit], messages: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Unit], Sent]:
        """The units of a prompt, and its sizes after the previous prompt's units."""
        units = [unit for message in messages for unit in self._units(message)]
        cached = 0
        for before, now in zip(previous, units, strict=False):
            if before.identity != now.identity:
                break
            cached += now.tokens
        return units, Sent(sum(unit.tokens for unit in units), cached)

    def within(self, units: Sequence[Unit], most: int) -> list[Unit]:
        """The first units that fit so many tokens."""
        ends = accumulate(unit.tokens for unit in units)
        return [unit for unit, end in zip(units, ends, strict=True) if end <= most]

    def billed(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """What a provider is sent: the tools' schemas, then the prompt."""
        return [*self._tools, *units]

    def tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """Tokens of messages, as the engine counts them."""
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


SMALLEST: Final = 1_024
"""Tokens below which neither provider caches a beginning."""
BLOCK: Final = 128
"""Tokens in which OpenAI's cached beginnings grow."""
LOOKBACK: Final = 20
"""Content blocks before a breakpoint in which Anthropic looks for a beginning it has cached."""


class Cache(Protocol):
    """A provider's cache along one run."""

    def bill(self, units: Sequence[Unit], time: float = 0.0) -> Usage:
        """What the next prompt is billed; `time` is in seconds and never goes back."""


class OpenAICache:
    """Every prompt is cached by itself: the longest beginning of an earlier prompt is read."""

    def __init__(self) -> None:
        self._used: dict[int, float] = {}

    def bill(self, units: Sequence[Unit], time: float = 0.0) -> Usage:
        """See `Cache`."""
        known = tokens = 0
        together = True
        for place, unit in zip(_places(units), units, strict=True):
            tokens += unit.tokens
            together = together and _lives(self._used.get(place), time)
            known = tokens if together else known
            self._used[place] = time
        read = known // BLOCK * BLOCK if known >= SMALLEST else 0
        return Usage(fresh=tokens - read, read=read)


class AnthropicCache:
    """Cached is what ends at a breakpoint of an earlier prompt; what a breakpoint adds is written.

    One breakpoint is at the end of every prompt. With `quarters`, three more stand at the quarters
    of the prompt as it was when it last was no continuation of the one before.
    """

    def __init__(self, *, quarters: bool) -> None:
        self._quarters = quarters
        self._used: dict[int, float] = {}
        self._last = 0
        self._fixed: Sequence[int] = ()

    def bill(self, units: Sequence[Unit], time: float = 0.0) -> Usage:
        """See `Cache`."""
        if not units:
            return Usage()
        places = _places(units)
        sizes = list(accumulate(unit.tokens for unit in units))
        blocks = list(accumulate(unit.blocks for unit in units))
        breakpoints = self._breakpoints(places, sizes)
        read = max((self._found(end, places, blocks, time) for end in breakpoints), default=-1)
        for end in breakpoints:
            if sizes[end] >= SMALLEST:
                self._used[places[end]] = time
        if read >= 0:
            self._used[places[read]] = time
        cached = sizes[read] if read >= 0 else 0
        written = sizes[-1] - cached if sizes[-1] >= SMALLEST else 0
        return Usage("", sizes[-1] - cached - written, cached, written)

    def _breakpoints(self, places: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """Numbers of the units that end at a breakpoint."""
        if self._quarters and self._last not in places:
            wanted = [sizes[-1] * quarter / 4 for quarter in (1, 2, 3)]
            ends = [sum(size <= most for size in sizes) - 1 for most in wanted]
            self._fixed = sorted({end for end in ends if end >= 0})
        self._last = places[-1]
        return sorted({*self._fixed, len(places) - 1})

    def _found(self, end: int, places: Sequence[int], blocks: Sequence[int], time: float) -> int:
        """The last unit, not further back than is looked, up to which a beginning is cached."""
        for unit in range(end, -1, -1):
            if blocks[end] - blocks[unit] > LOOKBACK:
                break
            if _lives(self._used.get(places[unit]), time):
                return unit
        return -1


RULES: Final = ("openai", "anthropic", "anthropic_end")
"""OpenAI's, Anthropic's with breakpoints at the quarters, and with the one at the end alone."""


def caches() -> dict[str, Cache]:
    """A new cache of each rule."""
    return {
        "openai": OpenAICache(),
        "anthropic": AnthropicCache(quarters=True),
        "anthropic_end": AnthropicCache(quarters=False),
    }


def no_bills() -> dict[str, Usage]:
    """Nothing, by every rule."""
    return dict.fromkeys(RULES, NOTHING_USED)


def sum_bills(one: Mapping[str, Usage], other: Mapping[str, Usage]) -> dict[str, Usage]:
    """Both together, by every rule."""
    return {rule: one[rule].plus(other[rule]) for rule in RULES}


class Biller:
    """Adds up what a run's prompts are billed by every provider's rule."""

    def __init__(self, prompts: Prompts) -> None:
        """Bills the prompts with what stands before them all."""
        self._prompts = prompts
        self._caches = caches()
        self.bills = no_bills()

    def add(self, units: Sequence[Unit], time: float) -> None:
        """Bills the next prompt, sent at that second."""
        whole = self._prompts.billed(units)
        self.bills = {
            rule: self.bills[rule].plus(cache.bill(whole, time))
            for rule, cache in self._caches.items()
        }


def _places(units: Sequence[Unit]) -> list[int]:
    """A digest of everything up to and including each unit."""
    return list(accumulate(units, lambda before, unit: hash((before, unit.identity)), initial=0))[
        1:
    ]


def _lives(used: float | None, time: float) -> bool:
    return used is not None and time - used <= LIFETIME

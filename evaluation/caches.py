"""Prompts of one run as providers bill them: OpenAI's prompt cache and Anthropic's.

The rules, with their sources, are in docs/evaluation.md, Provider's bill.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Protocol

from evaluation.prompts import Unit

SMALLEST: Final = 1_024
"""Tokens below which neither provider caches a beginning."""
BLOCK: Final = 128
"""Tokens in which OpenAI's cached beginnings grow."""
LOOKBACK: Final = 20
"""Content blocks before a breakpoint in which Anthropic looks for a beginning it has cached."""
LIFETIME: Final = 300.0
"""Seconds without use after which both forget, where a run tells the time of its messages."""


@dataclass(slots=True, frozen=True)
class Billed:
    """Prompt tokens: at the full price, read from the cache, and written into it."""

    plain: int = 0
    read: int = 0
    written: int = 0

    def plus(self, other: "Billed") -> "Billed":
        """The sum of both."""
        return Billed(
            self.plain + other.plain, self.read + other.read, self.written + other.written
        )

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.plain + self.read + self.written


class Cache(Protocol):
    """A provider's cache along one run."""

    def bill(self, units: Sequence[Unit], time: float = 0.0) -> Billed:
        """What the next prompt is billed; `time` is in seconds and never goes back."""


class OpenAICache:
    """Every prompt is cached by itself: the longest beginning of an earlier prompt is read."""

    def __init__(self) -> None:
        self._used: dict[int, float] = {}

    def bill(self, units: Sequence[Unit], time: float = 0.0) -> Billed:
        """See `Cache`."""
        known = tokens = 0
        together = True
        for place, unit in zip(_places(units), units, strict=True):
            tokens += unit.tokens
            together = together and _lives(self._used.get(place), time)
            known = tokens if together else known
            self._used[place] = time
        read = known // BLOCK * BLOCK if known >= SMALLEST else 0
        return Billed(plain=tokens - read, read=read)


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

    def bill(self, units: Sequence[Unit], time: float = 0.0) -> Billed:
        """See `Cache`."""
        if not units:
            return Billed()
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
        return Billed(sizes[-1] - cached - written, cached, written)

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


def no_bills() -> dict[str, Billed]:
    """Nothing, by every rule."""
    return dict.fromkeys(RULES, Billed())


def sum_bills(one: Mapping[str, Billed], other: Mapping[str, Billed]) -> dict[str, Billed]:
    """Both together, by every rule."""
    return {rule: one[rule].plus(other[rule]) for rule in RULES}


def _places(units: Sequence[Unit]) -> list[int]:
    """A digest of everything up to and including each unit."""
    return list(accumulate(units, lambda before, unit: hash((before, unit.identity)), initial=0))[
        1:
    ]


def _lives(used: float | None, time: float) -> bool:
    return used is not None and time - used <= LIFETIME

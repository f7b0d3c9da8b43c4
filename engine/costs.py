"""What model calls cost (docs/method.md, Measures): by the paper's formula, and by true prefix."""

from dataclasses import dataclass
from typing import Final

INPUT: Final = 2.0
"""Dollars for a million prompt tokens."""
CACHED: Final = 0.5
"""The same for prompt tokens the provider has cached: a quarter of the input price."""
OUTPUT: Final = 8.0
EMBEDDED: Final = 0.13


@dataclass(slots=True, frozen=True)
class Usage:
    """Tokens of a run's calls: prompts, the part of them cached, what was written, and embedded."""

    prompt: int = 0
    cached: int = 0
    output: int = 0
    embedded: int = 0

    def plus(self, other: "Usage") -> "Usage":
        """The sum of both."""
        return Usage(
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.output + other.output,
            self.embedded + other.embedded,
        )

    @property
    def cached_fraction(self) -> float:
        """The share of prompt tokens that were cached: the paper's rho, of the full history."""
        return self.cached / self.prompt if self.prompt else 0.0

    def paper_cost(self, cached_fraction: float) -> float:
        """Dollars by the paper's formula: one cached fraction, full history's, for every policy."""
        price = INPUT * (1 - cached_fraction) + CACHED * cached_fraction
        return self._dollars(price * self.prompt)

    @property
    def prefix_cost(self) -> float:
        """Dollars with the tokens cached that really repeat the previous prompt's beginning."""
        return self._dollars(INPUT * (self.prompt - self.cached) + CACHED * self.cached)

    def _dollars(self, prompt: float) -> float:
        return (prompt + OUTPUT * self.output + EMBEDDED * self.embedded) / 1e6


NOTHING_USED: Final = Usage()

"""The tokens of model calls."""

from dataclasses import dataclass
from typing import Final


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


NOTHING_USED: Final = Usage()

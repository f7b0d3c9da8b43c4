"""A text in place of a result."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Replacement:
    """A text that stands in for a result, its tokens as a message, and what it is."""

    text: str
    tokens: int
    kind: str = "excerpt"

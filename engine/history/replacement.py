"""A text in place of a result."""

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Replacement:
    """A text that replaces a result, its tokens as a message, and its kind."""

    text: str
    tokens: int
    kind: str = "excerpt"

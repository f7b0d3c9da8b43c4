"""What tracking asks of a transcript, so that it does not depend on how a history is held."""

from collections.abc import Sequence
from typing import Protocol


class Turns(Protocol):
    """A transcript's roles and turns, as a `History` has them."""

    @property
    def roles(self) -> Sequence[str]:
        """Of each message."""

    @property
    def turns(self) -> Sequence[int]:
        """Of each message."""

    @property
    def first_user(self) -> int:
        """Position of the first user message, or -1."""

    def result_at(self, message: int) -> int:
        """The number of the result that is this message, or -1."""

    def turn_of(self, result: int) -> int:
        """The turn that called a result."""

    def call_of(self, result: int) -> tuple[int, int]:
        """The message that called a result and the number of the call in it, or -1 twice."""

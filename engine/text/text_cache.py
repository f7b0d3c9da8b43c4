"""Caches a function of a text, within a limit of characters."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

BYTES_A_CHARACTER: Final = 4
"""About what a text and the tokens found in it take together, measured on recorded results."""


class TextCache[T]:
    """Calls `function`, and keeps its values with their texts; safe between threads."""

    def __init__(self, function: Callable[[str], T], limit: int) -> None:
        """Keeps texts of at most `limit` bytes together, with their values."""
        self.limit = limit
        self._function = function
        self._guard = threading.Lock()
        self._held: OrderedDict[str, T] = OrderedDict()
        self._characters = 0

    @property
    def nbytes(self) -> int:
        """A rough estimate of the memory held, in bytes."""
        return BYTES_A_CHARACTER * self._characters

    def __call__(self, text: str) -> T:
        """The function's value."""
        with self._guard:
            if text in self._held:
                self._held.move_to_end(text)
                return self._held[text]
        value = self._function(text)
        with self._guard:
            if text not in self._held:
                self._held[text] = value
                self._characters += len(text)
            while self._held and self.nbytes > self.limit:
                self._characters -= len(self._held.popitem(last=False)[0])
        return value

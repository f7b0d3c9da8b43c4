"""Caches a function of a text, within a limit of characters."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
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
        return self.each((text,))[0]

    def each(self, texts: Sequence[str]) -> list[T]:
        """The function's value of each."""
        held = self._held
        with self._guard:
            found = {text: held[text] for text in texts if text in held}
            for text in found:
                held.move_to_end(text)
        fresh = {text: self._function(text) for text in dict.fromkeys(texts) if text not in found}
        with self._guard:
            for text in fresh.keys() - held.keys():
                held[text] = fresh[text]
                self._characters += len(text)
            while held and self.nbytes > self.limit:
                self._characters -= len(held.popitem(last=False)[0])
        found |= fresh
        return [found[text] for text in texts]

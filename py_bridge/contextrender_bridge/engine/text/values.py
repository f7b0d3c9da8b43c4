"""The values of a text: those of Tool-Flow Analysis, those recall follows, and tracked tokens."""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

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
            for text, value in fresh.items():
                if text not in held:  # else another thread was first
                    held[text] = value
                    self._characters += len(text)
            while held and self.nbytes > self.limit:
                self._characters -= len(held.popitem(last=False)[0])
        found |= fresh
        return [found[text] for text in texts]


_ESCAPE = re.compile(r"\\[ntr\\]")
_CANDIDATE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{4,}[A-Za-z0-9]")
SHORTEST = 6

_WORD = re.compile(r"[A-Za-z0-9_]{6,}")
CAPITAL_OR_UNDERSCORE = re.compile(r"[A-Z_]")


def unescape(text: str) -> str:
    r"""The text with the two-character escapes `\n` `\t` `\r` `\\` read as white space.

    Results and call arguments are often JSON text, where `\nname` would hide `name`.
    """
    return _ESCAPE.sub(" ", text)


def extract_values(text: str) -> set[str]:
    """The distinct reusable values of a text (`docs/method.md`, Tool-Flow Analysis).

    A value has at least 6 characters after its leading and trailing `.` `-` `_` are stripped,
    at least one of underscore, uppercase letter, digit, `-`, `.`, and is not a Titlecase word.
    """
    found = set(_CANDIDATE.findall(unescape(text)))
    # Letters alone are distinctive when one after the first is a capital.
    return {value for value in found if not value.isalpha() or not value[1:].islower()}


def extract_words(text: str) -> set[str]:
    """The distinct words that recall follows (`docs/method.md`, Measures).

    A word has 6 or more letters, digits or underscores, at least one uppercase or `_`.
    """
    words = set(_WORD.findall(unescape(text)))
    return {word for word in words if CAPITAL_OR_UNDERSCORE.search(word)}


Ids = NDArray[np.int32]

MOST_BYTES: Final = 4 * 2**20

_END: Final = "\0"
_RUN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{4,}")
_RUN_OR_END: Final = re.compile(rf"{_END}|{_RUN.pattern}")
_BETWEEN: Final = re.compile(r"[.\-]")


def tracked_tokens(text: str) -> set[str]:
    """Values by Tool-Flow Analysis, and the tokens that recall follows."""
    return set().union(*tracked_runs(text).values())


def numbered(ids: Mapping[str, int]) -> TextCache[tuple[Ids, list[str]]]:
    """The same by number, for texts that call after call shows; and those without a number yet."""

    def read(text: str) -> tuple[Ids, list[str]]:
        tokens = tracked_tokens(text)
        known = [number for token in tokens if (number := ids.get(token)) is not None]
        return np.array(known, np.int32), [token for token in tokens if token not in ids]

    return TextCache(read, MOST_BYTES)


def tracked_runs(text: str) -> dict[str, frozenset[str]]:
    """A text's tracked tokens by the runs of the characters they are made of, for `held_in`."""
    runs = set(_RUN.findall(unescape(text)))
    return {run: tokens for run in runs if (tokens := _tokens_of(run))}


def held_in(parts: Sequence[str], runs: Mapping[str, frozenset[str]]) -> list[set[str]]:
    """The tracked tokens of each part of the text that has these runs; one cut in two is in none.

    The parts are read at once: they are many, and short.
    """
    found: list[set[str]] = [set()]
    marked = _END.join(part.replace(_END, " ") for part in parts)
    for run in _RUN_OR_END.findall(unescape(marked)):
        if run in runs:
            found[-1] |= runs[run]
        elif run == _END:
            found.append(set())
    return found


def _tokens_of(run: str) -> frozenset[str]:
    return _of_known(run) if len(run) <= LONGEST_KNOWN else _of_run(run)


def _of_run(run: str) -> frozenset[str]:
    """What `extract_values` and `extract_words` find in a run, at a third of their time."""
    if run.isalpha() and run[1:].islower():
        return frozenset({run} if len(run) >= SHORTEST and run[0].isupper() else ())
    words = {word for word in _BETWEEN.split(run) if len(word) >= SHORTEST}
    found = {word for word in words if CAPITAL_OR_UNDERSCORE.search(word)}
    value = run.strip("._-")
    if len(value) >= SHORTEST and not (value.isalpha() and value[1:].islower()):
        found.add(value)
    return frozenset(found)


LONGEST_KNOWN: Final = 64
_of_known = lru_cache(16_384)(_of_run)
"""An agent's texts say the same names again and again: about 5 MB of them."""

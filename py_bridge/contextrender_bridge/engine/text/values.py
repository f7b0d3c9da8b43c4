"""The values of Tool-Flow Analysis, the words of recall measures, and tracked tokens."""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

BYTES_A_CHARACTER: Final = 4
"""The memory of a text and its tokens per character, as measured on recorded results."""


class TextCache[T]:
    """A cache of the values of a function of texts. Threads may share it."""

    def __init__(self, function: Callable[[str], T], limit: int) -> None:
        """Start an empty cache of the values of `function`.

        All cached texts and values together have at most about `limit` bytes.
        """
        self.limit = limit
        self._function = function
        self._guard = threading.Lock()
        self._values: OrderedDict[str, T] = OrderedDict()
        self._characters = 0

    @property
    def nbytes(self) -> int:
        """A rough estimate of the memory held, in bytes."""
        return BYTES_A_CHARACTER * self._characters

    def __call__(self, text: str) -> T:
        """Return the function's value for a text."""
        return self.each((text,))[0]

    def each(self, texts: Sequence[str]) -> list[T]:
        """Return the function's value for each text. Call the function for texts not in the cache.

        Then drop the least recently used values above the limit.
        """
        cached = self._values
        with self._guard:
            values = {text: cached[text] for text in texts if text in cached}
            for text in values:
                cached.move_to_end(text)
        # Call the function without the lock, because it may take long.
        new_values = {
            text: self._function(text) for text in dict.fromkeys(texts) if text not in values
        }
        with self._guard:
            for text, value in new_values.items():
                if text not in cached:  # another thread may have added it since
                    cached[text] = value
                    self._characters += len(text)
            while cached and self.nbytes > self.limit:
                self._characters -= len(cached.popitem(last=False)[0])
        values |= new_values
        return [values[text] for text in texts]


_ESCAPE = re.compile(r"\\[ntr\\]")
_CANDIDATE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{4,}[A-Za-z0-9]")
SHORTEST = 6
"""The smallest number of characters of a value, a word or a token."""

_WORD = re.compile(r"[A-Za-z0-9_]{6,}")
CAPITAL_OR_UNDERSCORE = re.compile(r"[A-Z_]")


def unescape(text: str) -> str:
    r"""Replace the two-character escapes `\n` `\t` `\r` `\\` of a text by spaces.

    Results and call arguments are often JSON text, where `\nname` would hide `name`.
    """
    return _ESCAPE.sub(" ", text)


def extract_values(text: str) -> set[str]:
    """Return the distinct reusable values of a text (`docs/method.md`, Tool-Flow Analysis).

    A value has at least 6 characters, without `.` `-` `_` at its beginning and end. At least one
    character is an underscore, an uppercase letter, a digit, `-` or `.`. Titlecase words are no
    values.
    """
    candidates = set(_CANDIDATE.findall(unescape(text)))
    # A value of letters alone needs a capital after the first letter.
    return {value for value in candidates if not value.isalpha() or not value[1:].islower()}


def extract_words(text: str) -> set[str]:
    """Return the distinct words that the measures of recall compare (`docs/method.md`, Measures).

    A word has 6 or more letters, digits and underscores. At least one of these is an uppercase
    letter or an underscore.
    """
    words = set(_WORD.findall(unescape(text)))
    return {word for word in words if CAPITAL_OR_UNDERSCORE.search(word)}


Ids = NDArray[np.int32]

MAX_CACHE_BYTES: Final = 4 * 2**20

_END: Final = "\0"
"""Marks the end of a part in a joined text."""

_RUN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{4,}")
"""Matches a run: as many successive letters, digits, `_`, `.` and `-` as possible."""

_RUN_OR_END: Final = re.compile(rf"{_END}|{_RUN.pattern}")
_BETWEEN: Final = re.compile(r"[.\-]")


def tracked_tokens(text: str) -> set[str]:
    """Return the tokens of a text by which uses of results are recognised (docs/policies.md).

    They are the values of `extract_values` and the words of `extract_words`.
    """
    return set().union(*tracked_runs(text).values())


def token_id_cache(ids: Mapping[str, int]) -> TextCache[tuple[Ids, list[str]]]:
    """Return a cache of the tracked tokens of texts.

    `ids` maps tokens to their numbers, and grows. A cached value has the numbers of a text's
    tokens, and the tokens that had no number in `ids` when the text was read.
    """

    def read(text: str) -> tuple[Ids, list[str]]:
        """Return the numbers of a text's tokens, and the tokens without a number."""
        tokens = tracked_tokens(text)
        token_ids = [ids[token] for token in tokens if token in ids]
        return np.array(token_ids, np.int32), [token for token in tokens if token not in ids]

    return TextCache(read, MAX_CACHE_BYTES)


def tracked_runs(text: str) -> dict[str, frozenset[str]]:
    """Map each run in a text that contains tracked tokens to these tokens.

    A run consists of as many successive letters, digits, `_`, `.` and `-` as possible. It may
    contain several tokens: `user_id.value` is a token, and so is the `user_id` in it.
    """
    runs = set(_RUN.findall(unescape(text)))
    return {run: tokens for run in runs if (tokens := _tokens_of(run))}


def tokens_by_part(parts: Sequence[str], runs: Mapping[str, frozenset[str]]) -> list[set[str]]:
    """Return the tracked tokens of each part of a text.

    `runs` maps the runs of the whole text to their tokens. If a run begins in one part and ends in
    another, its tokens count for no part.
    """
    # The parts are many and short, so they are joined and read in one pass.
    tokens: list[set[str]] = [set()]
    joined_text = _END.join(part.replace(_END, " ") for part in parts)
    for run in _RUN_OR_END.findall(unescape(joined_text)):
        if run in runs:
            tokens[-1] |= runs[run]
        elif run == _END:
            tokens.append(set())
    return tokens


def _tokens_of(run: str) -> frozenset[str]:
    """Return the tracked tokens in a run of characters, from a cache unless the run is long."""
    return _cached_tokens(run) if len(run) <= LONGEST_CACHED else _find_tokens(run)


def _find_tokens(run: str) -> frozenset[str]:
    """Return the tracked tokens of a run: what `extract_values` and `extract_words` find in it.

    This function exists because it takes a third of the time of these two.
    """
    # A run of letters that are lowercase after the first: only a titlecase word is a token.
    if run.isalpha() and run[1:].islower():
        return frozenset({run} if len(run) >= SHORTEST and run[0].isupper() else ())
    words = {word for word in _BETWEEN.split(run) if len(word) >= SHORTEST}
    tokens = {word for word in words if CAPITAL_OR_UNDERSCORE.search(word)}
    value = run.strip("._-")
    if len(value) >= SHORTEST and not (value.isalpha() and value[1:].islower()):
        tokens.add(value)
    return frozenset(tokens)


LONGEST_CACHED: Final = 64
_cached_tokens = lru_cache(16_384)(_find_tokens)
"""Does what `_find_tokens` does. An agent's texts repeat names. The cache takes about 5 MB."""

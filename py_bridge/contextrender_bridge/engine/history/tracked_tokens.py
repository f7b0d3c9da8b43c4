"""Tracked tokens: the strings in texts by which uses of results are recognised, and their kinds.

A kind consists of the tokens of one shape in one tool's results, for example all numbers or all
file names. Tokens of some kinds are used more often than others. The weight of a token follows from
its kind (docs/policies.md, Weights).
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import GrowableArray
from contextrender_bridge.engine.history.reuse import unescape

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


SHORTEST = 6
"""The smallest number of characters of a value, a word or a token."""

CAPITAL_OR_UNDERSCORE = re.compile(r"[A-Z_]")

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


PRIOR_SHARE: Final = 0.05
"""The share of the tokens of a kind that is assumed to be used, before any token was observed."""

PRIOR_TOKENS: Final = 20.0
"""`PRIOR_SHARE` counts as much as this number of observed tokens of the kind."""

WEIGHT_EXPONENT: Final = 0.6

WEIGHT_STEPS: Final = 1024
"""Weights are multiples of 1 / `WEIGHT_STEPS`, so that their sums are the same in any order."""

_SHAPES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"[\d.\-_]+",
        r"[0-9a-f\-]{16,}",
        r"[A-Z][a-z]+",
        r"[A-Z]+",
        r"[^\W\d_]+",
        r".*\..*",
        r"[^A-Z]*_[^A-Z]*",
        r".*_.*",
        r".*-.*",
        r"[^A-Z]*",
        r".*",
    )
)


def shape_of(token: str) -> int:
    """Return the number of the first shape that the complete token matches."""
    return next(number for number, shape in enumerate(_SHAPES) if shape.fullmatch(token))


class TokenKinds:
    """The kind of every tracked token, by the token's number."""

    def __init__(self) -> None:
        """Start without tokens and kinds."""
        self._kind_numbers: dict[tuple[str, int], int] = {}
        """The number of each kind, by its tool and shape."""
        self._kind_of_token = GrowableArray(np.int32)  # the number of each token's kind

    @property
    def nbytes(self) -> int:
        """The memory held, in bytes."""
        return self._kind_of_token.nbytes + 150 * len(self._kind_numbers)

    def extend(self, tokens: Iterable[str], tool: str) -> None:
        """Add the next tokens. `tool` is the tool whose result has them, or "" for other texts."""
        numbers = self._kind_numbers
        kinds = [(tool, shape_of(token)) for token in tokens]
        self._kind_of_token.extend([numbers.setdefault(kind, len(numbers)) for kind in kinds])

    def first(self, count: int) -> "TokenKinds":
        """Return the kinds of the first `count` tokens. Do not add to it."""
        kinds = TokenKinds()
        kinds._kind_numbers = self._kind_numbers
        kinds._kind_of_token = self._kind_of_token.first(count)
        return kinds

    def weights(self, is_used: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the weight of each token, from how often its kind was used (docs/policies.md).

        `is_used` says for each token whether a turn used it.
        """
        kinds = self._kind_of_token.values
        # For each kind: the share of its tokens that were used, divided by `PRIOR_SHARE`. The prior
        # counts like `PRIOR_TOKENS` more tokens, so that few tokens do not give an extreme share.
        ratio = np.bincount(kinds, is_used) + PRIOR_TOKENS * PRIOR_SHARE
        ratio /= (np.bincount(kinds) + PRIOR_TOKENS) * PRIOR_SHARE
        kind_weights = np.round(ratio**WEIGHT_EXPONENT * WEIGHT_STEPS) / WEIGHT_STEPS
        weights: NDArray[Any] = kind_weights[kinds]
        return weights

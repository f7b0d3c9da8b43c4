"""What results say: segments, BM25 by words, overlap of segments with a query, and kinds of tokens.

Segments are the units that excerpts are made of. A kind is what one tool's results say in one
shape: its numbers, its file names, its identifiers. (docs/policies.md, Words and Kinds)
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import GrowableArray

Floats = NDArray[np.float64]

SATURATION = 1.2
LENGTH_SHARE = 0.75
MOST_QUERY_WORDS = 1_000

_WORD = re.compile(r"[A-Za-z0-9_]{2,}")

SEGMENT_CHARACTERS: Final = 70
LONGEST_RECORD: Final = 160
LONGEST_WORD: Final = 280

_LINE: Final = r"(?:\n|\\n)"
_SEGMENT: Final = re.compile(
    "|".join(
        pattern.replace("MOST", str(SEGMENT_CHARACTERS)).replace("LINE", _LINE)
        for pattern in (
            r".{1,MOST}+\Z",
            r".{28,MOST}[}\])],?LINE",
            rf".{{MOST,{LONGEST_RECORD}}}?[}}\])],?LINE",
            rf".{{28,{LONGEST_RECORD}}}?[}}\])],(?=\s*[{{\[])",
            rf".{{28,{LONGEST_RECORD}}}?LINE(?=[ \t]*(?:- |LINE|#))",
            r".{14,MOST}LINE",
            r".{20,MOST}[}\])],(?=\s*[{\[\"'(])",
            r".{35,MOST}(?:,\s?(?=\\*[\"'])|[.;!?]\s|\||\t|\\t|[}\])],)",
            r".{35,MOST}(?<!:)[\s,]",
            rf".{{MOST,{LONGEST_WORD}}}?[\s\"'<>,](?![\s\"'<>,])",
            r".{1,MOST}",
        )
    ),
    re.DOTALL,
)


def segments_of(text: str) -> list[str]:
    """The text in pieces of about `SEGMENT_CHARACTERS` at most; one, if it is empty.

    A piece is as much as ends with a record or an item of a list, up to `LONGEST_RECORD`; else as
    many whole lines as there is room for; else it ends with a record within a line, a sentence or a
    field, else at white space or a comma, but not between a key and its value. A longer word stays
    whole up to `LONGEST_WORD`.
    """
    return _SEGMENT.findall(text) or [""]


def words_of(text: str) -> tuple[str, ...]:
    """The distinct words of a text in lower case, in order of appearance."""
    return tuple(dict.fromkeys(_WORD.findall(text.lower())))


class WordIndex:
    """Which segments of which results hold each word (docs/policies.md, Words).

    A word's frequency in a result is the number of its segments that hold it, a result's length
    the sum of its segments' distinct words.
    """

    def __init__(self) -> None:
        self._postings: dict[str, int | array[int]] = {}
        self._entries = 0
        self._lengths = GrowableArray()
        self._result_of = GrowableArray(np.int32)

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        words = 100 * len(self._postings) + 5 * self._entries
        return words + GrowableArray.bytes_in(self)

    def add(self, segments: Sequence[str]) -> None:
        """Adds the next result as the texts of its segments."""
        result, first, length = len(self._lengths.values), len(self._result_of.values), 0
        postings = self._postings
        for segment, text in enumerate(segments, first):
            words = set(_WORD.findall(text.lower()))
            length += len(words)
            for word in words:
                known = postings.get(word)
                if known is None:
                    postings[word] = segment
                elif isinstance(known, int):
                    postings[word] = array("i", (known, segment))
                else:
                    known.append(segment)
        self._entries += length
        GrowableArray.extend_all(
            (self._lengths, (length,)), (self._result_of, [result] * len(segments))
        )

    def first(self, results: int, segments: int) -> "WordIndex":
        """The same of the first results alone, for reading."""
        found = WordIndex()
        found._postings, found._entries = self._postings, self._entries
        found._lengths = self._lengths.first(results)
        found._result_of = self._result_of.first(segments)
        return found

    def match(self, query: Iterable[str]) -> tuple[Floats, Floats]:
        """BM25 of every result, and every segment's overlap: the sum of idf of words it holds.

        `query` are distinct words; the first `MOST_QUERY_WORDS` that any result holds count.
        """
        lengths, result_of = self._lengths.values, self._result_of.values
        results, segments = len(lengths), len(result_of)
        found = (_before(self._postings[w], segments) for w in query if w in self._postings)
        held = list(islice(filter(None, found), MOST_QUERY_WORDS))
        if not held:
            return np.zeros(results), np.zeros(segments)
        counts = np.array([len(posting) for posting in held])
        segment: NDArray[np.int32] = np.concatenate([np.frombuffer(p, np.int32) for p in held])
        word = np.repeat(np.arange(len(held)), counts)
        result = result_of[segment]
        changes = (result[1:] != result[:-1]) | (word[1:] != word[:-1])
        start = np.flatnonzero(np.concatenate(([True], changes)))
        holders = np.bincount(word[start], minlength=len(held))
        idf = np.log(1 + (results - holders + 0.5) / (holders + 0.5))
        frequency = np.diff(np.append(start, len(segment)))
        mean = max(1.0, float(lengths.mean()))
        norm = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * lengths / mean)
        holder = result[start]
        gain = idf[word[start]] * frequency * (SATURATION + 1) / (frequency + norm[holder])
        return np.bincount(holder, gain, results), np.bincount(segment, idf[word], segments)


def _before(posting: "int | array[int]", stop: int) -> "array[int]":
    """The segments of a posting that are before number `stop`."""
    held = array("i", (posting,)) if isinstance(posting, int) else posting
    return held if held[-1] < stop else held[: bisect_left(held, stop)]


USUAL: Final = 0.05
"""The share of tokens that is used again, as far as a session has not shown."""

CAUTION: Final = 20.0
"""Tokens of a kind after which the session's own share counts as much as the usual one."""

TRUST: Final = 0.6

EXACT: Final = 1024
"""Weights are whole parts of this, so that sums of them are the same in any order."""

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
    """Which of the shapes a token has: the first that it matches whole."""
    return next(number for number, shape in enumerate(_SHAPES) if shape.fullmatch(token))


class TokenKinds:
    """The kind of every tracked token, by the token's number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._of = GrowableArray(np.int32)

    @property
    def nbytes(self) -> int:
        """The memory held, in bytes."""
        return self._of.nbytes + 150 * len(self._numbers)

    def extend(self, tokens: Iterable[str], tool: str) -> None:
        """Numbers the next tokens, which a tool's result said, or none (an empty name)."""
        numbers = self._numbers
        kinds = [(tool, shape_of(token)) for token in tokens]
        self._of.extend([numbers.setdefault(kind, len(numbers)) for kind in kinds])

    def first(self, count: int) -> "TokenKinds":
        """The same of the first `count` tokens alone, for reading."""
        found = TokenKinds()
        found._numbers, found._of = self._numbers, self._of.first(count)
        return found

    def weights(self, used: NDArray[np.bool_]) -> NDArray[np.float64]:
        """By token, how much more one of its kind was used so far than is usual, tempered."""
        kinds = self._of.values
        share = np.bincount(kinds, used) + CAUTION * USUAL
        share /= (np.bincount(kinds) + CAUTION) * USUAL
        weights: NDArray[Any] = (np.round(share**TRUST * EXACT) / EXACT)[kinds]
        return weights

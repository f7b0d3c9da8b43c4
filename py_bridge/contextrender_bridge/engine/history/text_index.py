"""Indexes of results' texts: segments, BM25 by words, overlap with a query, and kinds of tokens.

Excerpts are made of segments. A kind has the tokens of one shape in one tool's results, such as its
numbers, its file names or its identifiers. (docs/policies.md, Words and Kinds)
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
MAX_QUERY_WORDS = 1_000

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
    """Split a text into segments of about `SEGMENT_CHARACTERS` at most; an empty text is one.

    A segment ends, in this order of preference:

    1. with a record or an item of a list, up to `LONGEST_RECORD` characters;
    2. with a line;
    3. with a record within a line, a sentence or a field;
    4. at white space or a comma, but not between a key and its value.

    A word is not split up to `LONGEST_WORD` characters.
    """
    return _SEGMENT.findall(text) or [""]


def words_of(text: str) -> tuple[str, ...]:
    """Return the distinct words of a text in lower case, in order of appearance."""
    return tuple(dict.fromkeys(_WORD.findall(text.lower())))


class WordIndex:
    """An index of the segments that hold each word (docs/policies.md, Words).

    A word's frequency in a result is the number of the result's segments that hold it. A result's
    length is the sum of its segments' distinct words.
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
        """Add the next result as the texts of its segments."""
        result, first, length = len(self._lengths.values), len(self._result_of.values), 0
        postings = self._postings
        for segment, text in enumerate(segments, first):
            words = set(_WORD.findall(text.lower()))
            length += len(words)
            for word in words:
                posting = postings.get(word)
                if posting is None:
                    postings[word] = segment
                elif isinstance(posting, int):
                    postings[word] = array("i", (posting, segment))
                else:
                    posting.append(segment)
        self._entries += length
        GrowableArray.extend_all(
            (self._lengths, (length,)), (self._result_of, [result] * len(segments))
        )

    def first(self, results: int, segments: int) -> "WordIndex":
        """Return the index of the first results and segments, for reading alone."""
        index = WordIndex()
        index._postings, index._entries = self._postings, self._entries
        index._lengths = self._lengths.first(results)
        index._result_of = self._result_of.first(segments)
        return index

    def match(self, query: Iterable[str]) -> tuple[Floats, Floats]:
        """Return BM25 of every result, and the overlap of every segment with the query.

        The overlap is the sum of the idf of the words that the segment holds. `query` has distinct
        words; the first `MAX_QUERY_WORDS` that any result holds count.
        """
        lengths, result_of = self._lengths.values, self._result_of.values
        results, segments = len(lengths), len(result_of)
        matching = (_before(self._postings[w], segments) for w in query if w in self._postings)
        postings = list(islice(filter(None, matching), MAX_QUERY_WORDS))
        if not postings:
            return np.zeros(results), np.zeros(segments)
        # One entry for each pair of a query word and a segment that holds it.
        counts = np.array([len(posting) for posting in postings])
        segment: NDArray[np.int32] = np.concatenate([np.frombuffer(p, np.int32) for p in postings])
        word = np.repeat(np.arange(len(postings)), counts)
        result = result_of[segment]
        # One entry for each pair of a query word and a result that holds it.
        changes = (result[1:] != result[:-1]) | (word[1:] != word[:-1])
        start = np.flatnonzero(np.concatenate(([True], changes)))
        holders = np.bincount(word[start], minlength=len(postings))
        idf = np.log(1 + (results - holders + 0.5) / (holders + 0.5))
        frequency = np.diff(np.append(start, len(segment)))
        mean = max(1.0, float(lengths.mean()))
        norm = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * lengths / mean)
        holder = result[start]
        gain = idf[word[start]] * frequency * (SATURATION + 1) / (frequency + norm[holder])
        return np.bincount(holder, gain, results), np.bincount(segment, idf[word], segments)


def _before(posting: "int | array[int]", stop: int) -> "array[int]":
    """Return the segments of a posting with numbers below `stop`."""
    segments = array("i", (posting,)) if isinstance(posting, int) else posting
    return segments if segments[-1] < stop else segments[: bisect_left(segments, stop)]


USUAL: Final = 0.05
"""The share of tokens that is used again, as assumed for a new session."""

CAUTION: Final = 20.0
"""Tokens of a kind after which the session's own share counts as much as `USUAL`."""

TRUST: Final = 0.6

EXACT: Final = 1024
"""Weights are multiples of 1 / `EXACT`, so that their sums are the same in any order."""

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
        self._numbers: dict[tuple[str, int], int] = {}
        self._of = GrowableArray(np.int32)

    @property
    def nbytes(self) -> int:
        """The memory held, in bytes."""
        return self._of.nbytes + 150 * len(self._numbers)

    def extend(self, tokens: Iterable[str], tool: str) -> None:
        """Add the next tokens, which are new in a result of `tool` (empty: not in a result)."""
        numbers = self._numbers
        kinds = [(tool, shape_of(token)) for token in tokens]
        self._of.extend([numbers.setdefault(kind, len(numbers)) for kind in kinds])

    def first(self, count: int) -> "TokenKinds":
        """Return the kinds of the first `count` tokens, for reading alone."""
        kinds = TokenKinds()
        kinds._numbers, kinds._of = self._numbers, self._of.first(count)
        return kinds

    def weights(self, is_used: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the weight of each token: how often its kind was used, compared with `USUAL`.

        The ratio is tempered by the exponent `TRUST`. `is_used` says of each token whether it was
        used.
        """
        kinds = self._of.values
        share = np.bincount(kinds, is_used) + CAUTION * USUAL
        share /= (np.bincount(kinds) + CAUTION) * USUAL
        weights: NDArray[Any] = (np.round(share**TRUST * EXACT) / EXACT)[kinds]
        return weights

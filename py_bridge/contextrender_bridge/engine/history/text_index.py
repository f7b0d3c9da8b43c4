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
"""The constants k1 and b of BM25, with their usual values."""

MAX_QUERY_WORDS = 1_000

_WORD = re.compile(r"[A-Za-z0-9_]{2,}")

SEGMENT_CHARACTERS: Final = 70
LONGEST_RECORD: Final = 160
LONGEST_WORD: Final = 280

_LINE: Final = r"(?:\n|\\n)"
"""Matches a line break, also an escaped one of JSON text."""

# One pattern for each place where a segment may end, the best first. A pattern has a least number
# of characters, so that a segment does not end at its first separator.
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
    """An index of the segments that contain each word (docs/policies.md, Words).

    A word's frequency in a result is the number of the result's segments that contain it. A
    result's length is the sum of its segments' distinct words.
    """

    def __init__(self) -> None:
        self._postings: dict[str, int | array[int]] = {}
        """By word: the segments that contain it in order, or the segment if it is only one."""
        self._entries = 0
        """The number of pairs of a word and a segment that contains it."""
        self._lengths = GrowableArray()
        self._result_of = GrowableArray(np.int32)
        """The result of each segment."""

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

        The overlap is the sum of the idf of the query's words that the segment contains. `query`
        has distinct words; the first `MAX_QUERY_WORDS` that any result contains count.
        """
        lengths, result_of = self._lengths.values, self._result_of.values
        result_count, segment_count = len(lengths), len(result_of)
        matching = (
            _segments_before(segment_count, self._postings[word])
            for word in query
            if word in self._postings
        )
        postings = list(islice(filter(None, matching), MAX_QUERY_WORDS))
        if not postings:
            return np.zeros(result_count), np.zeros(segment_count)
        # One entry for each pair of a query word and a segment that contains it, sorted.
        segment: NDArray[np.int32] = np.concatenate([np.frombuffer(p, np.int32) for p in postings])
        word_number = np.repeat(np.arange(len(postings)), [len(segments) for segments in postings])
        result = result_of[segment]
        # One group of these entries for each pair of a query word and a result that contains it.
        is_new_group = (result[1:] != result[:-1]) | (word_number[1:] != word_number[:-1])
        group_start = np.flatnonzero(np.concatenate(([True], is_new_group)))
        group_word, group_result = word_number[group_start], result[group_start]
        frequency = np.diff(np.append(group_start, len(segment)))
        result_counts = np.bincount(group_word, minlength=len(postings))
        idf = np.log(1 + (result_count - result_counts + 0.5) / (result_counts + 0.5))
        mean_length = max(1.0, float(lengths.mean()))
        norm = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * lengths / mean_length)
        gain = idf[group_word] * frequency * (SATURATION + 1) / (frequency + norm[group_result])
        bm25 = np.bincount(group_result, gain, result_count)
        overlap = np.bincount(segment, idf[word_number], segment_count)
        return bm25, overlap


def _segments_before(stop: int, posting: "int | array[int]") -> "array[int]":
    """Return the segments of a posting with numbers below `stop`."""
    segments = array("i", (posting,)) if isinstance(posting, int) else posting
    return segments if segments[-1] < stop else segments[: bisect_left(segments, stop)]


PRIOR_SHARE: Final = 0.05
"""The share of tokens that is used again, as assumed for a new session."""

PRIOR_TOKENS: Final = 20.0
"""Tokens of a kind after which the session's own share counts as much as `PRIOR_SHARE`."""

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
        self._kind_numbers: dict[tuple[str, int], int] = {}
        """By tool and shape, which make a kind."""
        self._kind_of_token = GrowableArray(np.int32)

    @property
    def nbytes(self) -> int:
        """The memory held, in bytes."""
        return self._kind_of_token.nbytes + 150 * len(self._kind_numbers)

    def extend(self, tokens: Iterable[str], tool: str) -> None:
        """Add the next tokens. `tool` is that of the result they are in, empty for other texts."""
        numbers = self._kind_numbers
        kinds = [(tool, shape_of(token)) for token in tokens]
        self._kind_of_token.extend([numbers.setdefault(kind, len(numbers)) for kind in kinds])

    def first(self, count: int) -> "TokenKinds":
        """Return the kinds of the first `count` tokens, for reading alone."""
        kinds = TokenKinds()
        kinds._kind_numbers = self._kind_numbers
        kinds._kind_of_token = self._kind_of_token.first(count)
        return kinds

    def weights(self, is_used: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the weight of each token, from how often its kind was used (docs/policies.md).

        `is_used` says of each token whether it was used.
        """
        kinds = self._kind_of_token.values
        ratio = np.bincount(kinds, is_used) + PRIOR_TOKENS * PRIOR_SHARE
        ratio /= (np.bincount(kinds) + PRIOR_TOKENS) * PRIOR_SHARE
        kind_weights = np.round(ratio**WEIGHT_EXPONENT * WEIGHT_STEPS) / WEIGHT_STEPS
        weights: NDArray[Any] = kind_weights[kinds]
        return weights

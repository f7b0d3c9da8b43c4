"""The segments into which results' texts are split, and an index of their words.

Excerpts are made of segments. The index returns BM25 scores of results, and the overlap of segments
with a query (docs/policies.md, Words).
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

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

# One pattern for each kind of place where a segment may end, the best first. Most patterns require
# a number of characters before the place, so that a segment does not end at its first separator.
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
    """Split a text into segments of usually at most `SEGMENT_CHARACTERS` characters.

    A segment ends at one of these places, in this order of preference:

    1. with a record or an item of a list; such a segment may have `LONGEST_RECORD` characters;
    2. with a line;
    3. with a record within a line, a sentence or a field;
    4. at white space or a comma, but not between a key and its value.

    A word of up to `LONGEST_WORD` characters is not split. An empty text is one segment.
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
        """Start without segments."""
        self._postings: dict[str, int | array[int]] = {}
        """The segments with each word, in order; to save memory, no array if it is only one."""
        self._posting_count = 0  # the number of pairs of a word and a segment with the word
        self._lengths = GrowableArray()  # the length of each result
        self._result_of = GrowableArray(np.int32)  # the result of each segment

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        # About 100 bytes for each word, and 5 for each entry of its posting.
        posting_bytes = 100 * len(self._postings) + 5 * self._posting_count
        return posting_bytes + GrowableArray.bytes_in(self)

    def add(self, segments: Sequence[str]) -> None:
        """Add the next result, given as the texts of its segments."""
        # Results and segments are numbered in order, through all results.
        result, first_segment = len(self._lengths.values), len(self._result_of.values)
        length = 0
        postings = self._postings
        for segment, text in enumerate(segments, first_segment):
            words = set(_WORD.findall(text.lower()))
            length += len(words)
            for word in words:
                posting = postings.get(word)
                # Most words are in one segment only. Its number takes less memory than an array.
                if posting is None:
                    postings[word] = segment
                elif isinstance(posting, int):
                    postings[word] = array("i", (posting, segment))
                else:
                    posting.append(segment)
        self._posting_count += length
        GrowableArray.extend_all(
            (self._lengths, (length,)), (self._result_of, [result] * len(segments))
        )

    def first(self, results: int, segments: int) -> "WordIndex":
        """Return an index of the first `results` results, with `segments` segments in total.

        Do not add to the returned index, because it shares the postings of this one. The postings
        also have later segments, but `match` leaves them out.
        """
        index = WordIndex()
        index._postings, index._posting_count = self._postings, self._posting_count
        index._lengths = self._lengths.first(results)
        index._result_of = self._result_of.first(segments)
        return index

    def match(self, query: Iterable[str]) -> tuple[Floats, Floats]:
        """Return two arrays: the BM25 score of every result, and the overlap of every segment.

        The overlap is the sum of the inverse document frequencies (idf) of the query's words that
        the segment contains. `query` has distinct words. A word that no result contains is ignored,
        and of the others only the first `MAX_QUERY_WORDS` count (`_segments_with`).
        """
        lengths, result_of = self._lengths.values, self._result_of.values
        result_count, segment_count = len(lengths), len(result_of)
        segments_by_word = self._segments_with(query)
        if not segments_by_word:
            return np.zeros(result_count), np.zeros(segment_count)
        word_count = len(segments_by_word)

        # A hit is a pair of a query word and a segment that contains it. The hits are sorted by
        # word, then by segment. Each `hit_` array has one entry for each hit.
        hit_segment = np.concatenate([np.frombuffer(hits, np.int32) for hits in segments_by_word])
        hit_word = np.repeat(np.arange(word_count), [len(hits) for hits in segments_by_word])
        hit_result = result_of[hit_segment]

        # A pair is a query word and a result that contains it. The hits of a pair follow each
        # other, and their number is the word's frequency in the result.
        is_next_pair = (hit_result[1:] != hit_result[:-1]) | (hit_word[1:] != hit_word[:-1])
        first_hit = np.flatnonzero(np.concatenate(([True], is_next_pair)))
        pair_word, pair_result = hit_word[first_hit], hit_result[first_hit]
        frequency = np.diff(np.append(first_hit, len(hit_segment)))

        # The formulas of BM25, with its usual names. Each pair adds `gain` to its result's score,
        # and each hit adds the word's idf to its segment's overlap.
        results_with_word = np.bincount(pair_word, minlength=word_count)
        idf = np.log(1 + (result_count - results_with_word + 0.5) / (results_with_word + 0.5))
        mean_length = max(1.0, float(lengths.mean()))
        norm = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * lengths / mean_length)
        gain = idf[pair_word] * frequency * (SATURATION + 1) / (frequency + norm[pair_result])
        bm25 = np.bincount(pair_result, gain, result_count)
        overlap = np.bincount(hit_segment, idf[hit_word], segment_count)
        return bm25, overlap

    def _segments_with(self, query: Iterable[str]) -> "list[array[int]]":
        """Return, for each word of the query, the segments that contain it. Leave out other words.

        The postings may be shared with a longer index (see `first`), so leave out segments that are
        not in this index. Return at most `MAX_QUERY_WORDS` entries.
        """
        segment_count = len(self._result_of.values)
        segments_by_word = (
            _segments_before(segment_count, self._postings[word])
            for word in query
            if word in self._postings
        )
        return list(islice(filter(None, segments_by_word), MAX_QUERY_WORDS))


def _segments_before(stop: int, posting: "int | array[int]") -> "array[int]":
    """Return the segments of a posting with numbers below `stop`."""
    segments = array("i", (posting,)) if isinstance(posting, int) else posting
    return segments if segments[-1] < stop else segments[: bisect_left(segments, stop)]

"""Excerpts of texts that are too large to be shown complete (`docs/method.md`, Excerpts).

An excerpt has the head, the tail, and between them the pieces with needed values. It marks gaps.
"""

import re
from collections.abc import Collection

from contextrender_bridge.engine.text.tokens import TokenCounter

_PIECE = re.compile(r"[^\n]{1,240}\n?|\n")
_GAP_TOKENS = 12
_SMALLEST = 24
_MOST_VALUES = 400


def excerpt(
    text: str,
    limit: int,
    counter: TokenCounter,
    needed_values: Collection[str] = (),
    tokens: int | None = None,
) -> str:
    """Return an excerpt of at most `limit` tokens, or the text itself if it fits.

    Half goes to the head, the rest to pieces with `needed_values` and to the tail. `tokens` is the
    size of the text if the caller knows it.
    """
    if (counter.text(text) if tokens is None else tokens) <= limit:
        return text
    if limit < _SMALLEST:
        return counter.cut(text, max(0, limit))
    pieces = [match.span() for match in _PIECE.finditer(text)]
    taken_pieces: dict[int, int] = {}
    room = limit - 2 * _GAP_TOKENS
    room -= _take(text, pieces, range(len(pieces)), room // 2, counter, taken_pieces)
    room -= _take(
        text,
        pieces,
        _holding(text, pieces, needed_values),
        room // 2,
        counter,
        taken_pieces,
        gaps=True,
    )
    _take(text, pieces, range(len(pieces) - 1, -1, -1), room, counter, taken_pieces)
    if not taken_pieces:
        return counter.cut(text, limit)
    order = list(taken_pieces)
    result = _join(text, pieces, taken_pieces)
    while counter.text(result) > limit and order:
        del taken_pieces[order.pop()]
        result = _join(text, pieces, taken_pieces)
    return result if taken_pieces else counter.cut(text, limit)


def _take(
    text: str,
    pieces: list[tuple[int, int]],
    order: Collection[int],
    room: int,
    counter: TokenCounter,
    taken_pieces: dict[int, int],
    *,
    gaps: bool = False,
) -> int:
    """Add pieces in the given order while they fit `room`, and return the tokens used."""
    tokens_used = 0
    for index in order:
        if index in taken_pieces:
            continue
        start, end = pieces[index]
        tokens = counter.text(text[start:end]) + (_GAP_TOKENS if gaps else 0)
        if tokens_used + tokens > room:
            break
        taken_pieces[index] = tokens
        tokens_used += tokens
    return tokens_used


def _holding(text: str, pieces: list[tuple[int, int]], needed_values: Collection[str]) -> list[int]:
    """Return the pieces with needed values, those with the most distinct values first."""
    if not needed_values:
        return []
    longest_first = sorted(needed_values, key=lambda value: (-len(value), value))[:_MOST_VALUES]
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    counts = {
        index: len(values)
        for index, (start, end) in enumerate(pieces)
        if (values := set(pattern.findall(text, start, end)))
    }
    return sorted(counts, key=lambda index: (-counts[index], index))


def _join(text: str, pieces: list[tuple[int, int]], taken_pieces: Collection[int]) -> str:
    parts: list[str] = []
    reached = 0
    for index in sorted(taken_pieces):
        start, end = pieces[index]
        if start > reached:
            parts.append(_gap(start - reached))
        parts.append(text[start:end])
        reached = end
    if reached < len(text):
        parts.append(_gap(len(text) - reached))
    return "".join(parts)


def _gap(characters: int) -> str:
    return f"\n[… {characters} characters left out …]\n"

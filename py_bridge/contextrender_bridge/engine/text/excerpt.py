"""Excerpts: what is shown of a text too large to be shown complete (`docs/method.md`, Excerpts).

Head, tail, and between them the pieces that hold wanted values; every gap is marked.
"""

import re
from collections.abc import Collection

from contextrender_bridge.engine.text.tokens import TokenCounter

_PIECE = re.compile(r"[^\n]{1,240}\n?|\n")
_GAP_TOKENS = 12
_SMALLEST = 24
_MOST_WANTED = 400


def excerpt(
    text: str,
    limit: int,
    counter: TokenCounter,
    wanted: Collection[str] = (),
    tokens: int | None = None,
) -> str:
    """At most `limit` tokens of `text`; the text itself when it fits.

    Half goes to the head, the rest to pieces holding `wanted` values and to the tail. `tokens` is
    the text's own size where it is known.
    """
    if (counter.text(text) if tokens is None else tokens) <= limit:
        return text
    if limit < _SMALLEST:
        return counter.cut(text, max(0, limit))
    pieces = [match.span() for match in _PIECE.finditer(text)]
    chosen: dict[int, int] = {}
    room = limit - 2 * _GAP_TOKENS
    room -= _take(text, pieces, range(len(pieces)), room // 2, counter, chosen)
    room -= _take(
        text, pieces, _holding(text, pieces, wanted), room // 2, counter, chosen, gaps=True
    )
    _take(text, pieces, range(len(pieces) - 1, -1, -1), room, counter, chosen)
    if not chosen:
        return counter.cut(text, limit)
    order = list(chosen)
    result = _join(text, pieces, chosen)
    while counter.text(result) > limit and order:
        del chosen[order.pop()]
        result = _join(text, pieces, chosen)
    return result if chosen else counter.cut(text, limit)


def _take(
    text: str,
    pieces: list[tuple[int, int]],
    order: Collection[int],
    room: int,
    counter: TokenCounter,
    chosen: dict[int, int],
    *,
    gaps: bool = False,
) -> int:
    """Adds pieces in the given order until one no longer fits `room`; returns the tokens used."""
    used = 0
    for index in order:
        if index in chosen:
            continue
        start, end = pieces[index]
        tokens = counter.text(text[start:end]) + (_GAP_TOKENS if gaps else 0)
        if used + tokens > room:
            break
        chosen[index] = tokens
        used += tokens
    return used


def _holding(text: str, pieces: list[tuple[int, int]], wanted: Collection[str]) -> list[int]:
    """The pieces that hold wanted values, those with the most distinct ones first."""
    if not wanted:
        return []
    longest_first = sorted(wanted, key=lambda value: (-len(value), value))[:_MOST_WANTED]
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    counts = {
        index: len(found)
        for index, (start, end) in enumerate(pieces)
        if (found := set(pattern.findall(text, start, end)))
    }
    return sorted(counts, key=lambda index: (-counts[index], index))


def _join(text: str, pieces: list[tuple[int, int]], chosen: Collection[int]) -> str:
    parts: list[str] = []
    reached = 0
    for index in sorted(chosen):
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

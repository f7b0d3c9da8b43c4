"""Excerpts of texts that are too large to be shown complete (`docs/method.md`, Excerpts).

An excerpt has the text's head, its tail, and between them pieces with needed values. Gaps between
these parts are marked.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from contextrender_bridge.engine.text.tokens import TokenCounter

_PIECE = re.compile(r"[^\n]{1,240}\n?|\n")
_GAP_TOKENS = 12
"""The tokens reserved for a mark of a gap."""

_MIN_TOKENS = 24
"""Below this limit an excerpt is the plain beginning of the text."""

_MAX_VALUES = 400
"""The most needed values that are searched for, the longest first."""


def excerpt(
    text: str,
    limit: int,
    counter: TokenCounter,
    needed_values: Collection[str] = (),
    tokens: int | None = None,
) -> str:
    """Return an excerpt of at most `limit` tokens, or the text itself if it fits.

    The head (the first pieces) has half of the limit, pieces with `needed_values` have half of the
    rest, and the tail (the last pieces) has what remains. `tokens` is the size of the text, or None
    if the caller has not counted it.
    """
    size = counter.text(text) if tokens is None else tokens
    if size <= limit:
        return text
    if limit < _MIN_TOKENS:
        return counter.cut(text, max(0, limit))
    # Select pieces for the head, for the values and for the tail.
    pieces = [match.span() for match in _PIECE.finditer(text)]
    selection = _PieceSelection(text, pieces, counter)
    remaining_tokens = limit - 2 * _GAP_TOKENS  # the gaps after the head and before the tail
    from_start, from_end = range(len(pieces)), reversed(range(len(pieces)))
    remaining_tokens -= selection.add(from_start, remaining_tokens // 2)
    with_values = _pieces_with_values(text, pieces, needed_values)
    remaining_tokens -= selection.add(with_values, remaining_tokens // 2, _GAP_TOKENS)
    selection.add(from_end, remaining_tokens)
    # The joined text may have more tokens than its pieces, so drop the last selected ones.
    while selection.tokens_by_piece:
        joined_text = selection.join()
        if counter.text(joined_text) <= limit:
            return joined_text
        selection.tokens_by_piece.popitem()
    return counter.cut(text, limit)


@dataclass
class _PieceSelection:
    """The pieces of a text that an excerpt has.

    `pieces` has the start and end of every piece of the text. `tokens_by_piece` has the tokens of
    the selected pieces by number, in the order of selection.
    """

    text: str
    pieces: list[tuple[int, int]]
    counter: TokenCounter
    tokens_by_piece: dict[int, int] = field(default_factory=dict)

    def add(self, order: Iterable[int], limit: int, gap_tokens: int = 0) -> int:
        """Add pieces in this order until one does not fit `limit`. Return the added tokens.

        Count `gap_tokens` for each piece in addition, for the mark of the gap before it.
        """
        used_tokens = 0
        for piece in order:
            if piece in self.tokens_by_piece:
                continue
            start, end = self.pieces[piece]
            tokens = self.counter.text(self.text[start:end]) + gap_tokens
            if used_tokens + tokens > limit:
                break
            self.tokens_by_piece[piece] = tokens
            used_tokens += tokens
        return used_tokens

    def join(self) -> str:
        """Return the excerpt: the selected pieces in order, with a mark of each gap."""
        parts: list[str] = []
        last_end = 0
        for piece in sorted(self.tokens_by_piece):
            start, end = self.pieces[piece]
            if start > last_end:
                parts.append(_gap(start - last_end))
            parts.append(self.text[start:end])
            last_end = end
        if last_end < len(self.text):
            parts.append(_gap(len(self.text) - last_end))
        return "".join(parts)


def _pieces_with_values(
    text: str, pieces: list[tuple[int, int]], needed_values: Collection[str]
) -> list[int]:
    """Return the numbers of the pieces with needed values.

    The pieces with the most distinct values come first.
    """
    if not needed_values:
        return []
    longest_first = sorted(needed_values, key=lambda value: (-len(value), value))[:_MAX_VALUES]
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    value_counts: dict[int, int] = {}
    for piece, (start, end) in enumerate(pieces):
        if values := set(pattern.findall(text, start, end)):
            value_counts[piece] = len(values)
    return sorted(value_counts, key=lambda piece: (-value_counts[piece], piece))


def _gap(characters: int) -> str:
    """Return the mark of a gap of so many characters."""
    return f"\n[… {characters} characters left out …]\n"

"""The edges that store a call's selection, one for each change since the call before.

The text of an excerpt is stored as pieces: ranges of the original text, and the texts between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.plan.selection import (
    Changes,
    Ranges,
    Selection,
)

COMPLETE, EXCERPT, DROPPED, RESTORED = "ShowsComplete", "ShowsExcerpt", "Drops", "Restores"
KINDS: Final = (COMPLETE, EXCERPT, DROPPED, RESTORED)
MISSES: Final = "Misses"
Pieces = list[int | str]
EventText = Callable[[int], str]
"""Reads the original text of an event, by its number."""


class CallEdge(NamedTuple):
    """One edge of a call: the name of its type, the event that it leads to, and its fields."""

    kind: str
    event: int
    fields: Mapping[str, Any] = {}


def edges_of(changes: Changes, history: History, event_text: EventText) -> list[CallEdge]:
    """Return the edges that store a call's changes since the call before."""
    # If the next call will show another excerpt of an event, the event's edge stores both.
    next_fields: dict[int, dict[str, Any]] = {}
    for event, excerpt in changes.next_excerpts.items():
        pieces = pieces_of(excerpt.text, event_text(event), excerpt.ranges)
        next_fields[event] = {"next_pieces": pieces, "next_tokens": excerpt.tokens}
    # Complete events need only these fields, and dropped events need none.
    edges = [
        CallEdge(COMPLETE, event, next_fields.get(event, {})) for event in sorted(changes.complete)
    ]
    edges += [CallEdge(DROPPED, event) for event in sorted(changes.dropped)]

    # Excerpts store their text as pieces.
    for event, excerpt in changes.excerpts.items():
        pieces = pieces_of(excerpt.text, event_text(event), excerpt.ranges)
        fields = {"pieces": pieces, "tokens": excerpt.tokens, "kind": excerpt.kind}
        edges.append(CallEdge(EXCERPT, event, {**fields, **next_fields.get(event, {})}))

    # A restored part has an edge to its own result. The edge stores the event of the host, after
    # which the part is shown, and the index of the part among all parts after this host.
    for host, restored in changes.restored.items():
        for index, part in enumerate(restored.parts):
            event = history.results.event[part.result]
            pieces = pieces_of(part.text, event_text(event), part.ranges)
            fields = {"pieces": pieces, "tokens": part.tokens, "host_event": host, "place": index}
            edges.append(CallEdge(RESTORED, event, fields))
    return edges


def pieces_of(text: str, original: str, ranges: Ranges) -> Pieces:
    """Return a text as pieces: ranges of the original text, and the texts between them, in order.

    For example, ["see: ", 120, 30] is "see: " and the 30 characters of the original from 120 on.
    `ranges` are the ranges of the original that `text` contains. If it is empty, use the longest
    common beginning and end of both texts. If the ranges do not fit, the only piece is `text`.
    """
    ranges = ranges or _common_ends(text, original)
    pieces: Pieces = []
    end = 0  # of the part of `text` that is in `pieces`
    for start, length in zip(ranges[::2], ranges[1::2], strict=True):
        # Find the range's text behind the pieces so far.
        position = text.find(original[start : start + length], end)
        if position < 0 or start + length > len(original):
            return [text]  # the text does not consist of these ranges, so store all of it
        if position > end:
            pieces.append(text[end:position])
        pieces += [start, length]
        end = position + length
    return [*pieces, text[end:]] if end < len(text) else pieces


def _common_ends(text: str, original: str) -> Ranges:
    """Return the ranges of the original text with which both texts begin and end."""
    head = _common_length(text, original)
    tail = _common_length(text[head:][::-1], original[head:][::-1])
    head_range = (0, head) if head else ()
    tail_range = (len(original) - tail, tail) if tail else ()
    return head_range + tail_range


def _common_length(first: str, second: str) -> int:
    """Return the length of the longest common beginning of two texts."""
    for index, (character, other_character) in enumerate(zip(first, second, strict=False)):
        if character != other_character:
            return index
    return min(len(first), len(second))


def text_of(pieces: Sequence[int | str], original: str) -> tuple[str, Ranges]:
    """Return the text that consists of the pieces, and the ranges of the original that it contains.

    `pieces` is a list as `pieces_of` returns it. A piece is a text or a number. Two successive
    numbers are the start and the length of a range of the original text.
    """
    parts: list[str] = []
    ranges: list[int] = []
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(piece)
            continue
        ranges.append(piece)
        if len(ranges) % 2 == 0:  # the piece was a length, so the range is known
            start, length = ranges[-2:]
            parts.append(original[start : start + length])
    return "".join(parts), tuple(ranges)


@dataclass(slots=True, frozen=True)
class CallEdges:
    """A call's selection as it is stored: its edges, and fields of its node.

    If `is_relative` is true, the edges store the changes since the call before, otherwise the whole
    prompt. The other fields are fields of `Selection`. `step_budget` is the selection's `budget`.
    """

    edges: tuple[CallEdge, ...] = ()
    is_relative: bool = False
    is_over: bool = False
    rebuilt: int = 0
    breakpoints: tuple[int, ...] = ()
    step_budget: float = 0.0

    @classmethod
    def of(cls, fields: Mapping[str, Any], edges: Iterable[CallEdge]) -> Self:
        """Read the selection from the fields of a call's node, and from the call's edges.

        Use the default of a field that is missing.
        """
        return cls(
            edges=tuple(sorted(edges, key=_event_and_kind)),
            is_relative=bool(fields.get("is_relative")),
            is_over=bool(fields.get("is_over")),
            rebuilt=int(fields.get("rebuilt", 0)),
            breakpoints=tuple(fields.get("breakpoints", ())),
            step_budget=float(fields.get("step_budget", 0.0)),
        )

    @classmethod
    def since(
        cls,
        previous: Selection | None,
        selection: Selection,
        history: History,
        event_text: EventText,
    ) -> Self:
        """Return the edges and fields that store a selection as changes since `previous`.

        If `previous` is None, they store the whole prompt.
        """
        changes = selection.changes_since(previous, history)
        return cls(
            edges=tuple(sorted(edges_of(changes, history, event_text), key=_event_and_kind)),
            is_relative=previous is not None,
            is_over=selection.is_over,
            rebuilt=selection.rebuilt,
            breakpoints=selection.breakpoints,
            step_budget=selection.budget,
        )

    def fields(self) -> dict[str, Any]:
        """Return the fields of the call's node."""
        return {
            "is_relative": self.is_relative,
            "is_over": self.is_over,
            "rebuilt": self.rebuilt,
            "breakpoints": list(self.breakpoints),
            "step_budget": self.step_budget,
        }


def _event_and_kind(edge: CallEdge) -> tuple[int, str]:
    """Return the key by which a call's edges are sorted: the event's number, then the kind."""
    return edge.event, edge.kind

"""A selection as the edges of its call: each change since the call before, and back again.

The text of an excerpt is told by pieces: ranges of the own text, and what stands between them.
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
OwnText = Callable[[int], str]
"""Reads the own text of an event, by its number."""


class ShownEvent(NamedTuple):
    """One edge of a call: the type's name, the number of the event it leads to, its fields."""

    kind: str
    event: int
    fields: Mapping[str, Any] = {}


def edges_of(changes: Changes, history: History, own_text: OwnText) -> list[ShownEvent]:
    """Return the edges that tell what a call shows otherwise than the call before."""
    following: dict[int, dict[str, Any]] = {}
    for event, made in changes.next_excerpts.items():
        pieces = pieces_of(made.text, own_text(event), made.ranges)
        following[event] = {"next_pieces": pieces, "next_tokens": made.tokens}
    found = [
        ShownEvent(COMPLETE, event, following.get(event, {})) for event in sorted(changes.complete)
    ]
    found += [ShownEvent(DROPPED, event) for event in sorted(changes.dropped)]
    for event, made in changes.excerpts.items():
        pieces = pieces_of(made.text, own_text(event), made.ranges)
        fields = {"pieces": pieces, "tokens": made.tokens, "kind": made.kind}
        found.append(ShownEvent(EXCERPT, event, {**fields, **following.get(event, {})}))
    for host, behind in changes.restored.items():
        for place, part in enumerate(behind.parts):
            event = history.results.event[part.result]
            pieces = pieces_of(part.text, own_text(event), part.ranges)
            fields = {"pieces": pieces, "tokens": part.tokens, "behind": host, "place": place}
            found.append(ShownEvent(RESTORED, event, fields))
    return found


def pieces_of(text: str, own: str, ranges: Ranges) -> Pieces:
    """Return a text as ranges of the own text (start, length) and literal texts, in order.

    Without known ranges, what both begin and end with is found.
    """
    if not ranges:
        head = _shared(text, own)
        tail = _shared(text[head:][::-1], own[head:][::-1])
        ranges = tuple(
            number
            for start, length in ((0, head), (len(own) - tail, tail))
            if length
            for number in (start, length)
        )
    pieces: Pieces = []
    reached = 0
    for start, length in zip(ranges[::2], ranges[1::2], strict=True):
        place = text.find(own[start : start + length], reached)
        if place < 0 or start + length > len(own):
            return [text]
        if place > reached:
            pieces.append(text[reached:place])
        pieces += [start, length]
        reached = place + length
    return [*pieces, text[reached:]] if reached < len(text) else pieces


def _shared(one: str, other: str) -> int:
    """Return how many characters both texts begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def text_of(pieces: Sequence[int | str], own: str) -> tuple[str, Ranges]:
    """Return the text that pieces tell, and its ranges of the own text."""
    parts: list[str] = []
    ranges: list[int] = []
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(piece)
        elif len(ranges) % 2:
            parts.append(own[ranges[-1] : ranges[-1] + piece])
            ranges.append(piece)
        else:
            ranges.append(piece)
    return "".join(parts), tuple(ranges)


@dataclass(slots=True, frozen=True)
class CallEdges:
    """What one call shows: its edges, and the fields of its node that they do not have.

    They tell the changes since the call before if it `is_relative`, otherwise everything.
    """

    shown: tuple[ShownEvent, ...] = ()
    is_relative: bool = False
    is_over: bool = False
    rebuilt: int = 0
    breakpoints: tuple[int, ...] = ()
    step_budget: float = 0.0

    @classmethod
    def of(cls, fields: Mapping[str, Any], shown: Iterable[ShownEvent]) -> Self:
        """Return them of a node's fields and of its edges, in the order of the events."""
        return cls(
            tuple(sorted(shown, key=_place)),
            bool(fields.get("is_relative")),
            bool(fields.get("is_over")),
            int(fields.get("rebuilt", 0)),
            tuple(fields.get("breakpoints", ())),
            float(fields.get("step_budget", 0.0)),
        )

    @classmethod
    def since(
        cls, previous: Selection | None, selection: Selection, history: History, own_text: OwnText
    ) -> Self:
        """Return them of a selection, relative to that of the call before if there is one."""
        changes = selection.changes_since(previous, history)
        return cls(
            tuple(sorted(edges_of(changes, history, own_text), key=_place)),
            previous is not None,
            selection.is_over,
            selection.rebuilt,
            selection.breakpoints,
            selection.budget,
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


def _place(edge: ShownEvent) -> tuple[int, str]:
    return edge.event, edge.kind

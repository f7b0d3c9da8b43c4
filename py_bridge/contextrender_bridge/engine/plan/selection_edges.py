"""A selection as the edges of its call: each change since the call before, and back again.

The text of an excerpt is told by pieces: ranges of the own text, and what stands between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.plan.selection import (
    Changes,
    Ranges,
    RestoredPart,
    RestoredText,
    Selection,
    Substitute,
    TextSelection,
)

COMPLETE, EXCERPT, DROPPED, RESTORED = "ShowsComplete", "ShowsExcerpt", "Drops", "Restores"
KINDS: Final = (COMPLETE, EXCERPT, DROPPED, RESTORED)
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
    found = [ShownEvent(COMPLETE, event) for event in sorted(changes.complete)]
    found += [ShownEvent(DROPPED, event) for event in sorted(changes.dropped)]
    for event, made in changes.excerpts.items():
        pieces = pieces_of(made.text, own_text(event), made.ranges)
        fields = {"pieces": pieces, "tokens": made.tokens, "kind": made.kind}
        found.append(ShownEvent(EXCERPT, event, fields))
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


@dataclass
class EdgeTrail:
    """What is shown, while calls' edges are followed in order, by event number."""

    shown: dict[int, ShownEvent] = field(default_factory=dict)
    behind: dict[int, list[ShownEvent]] = field(default_factory=dict)

    def follow(self, edges: Iterable[ShownEvent]) -> None:
        """Take in the edges of the next call."""
        restored: dict[int, list[ShownEvent]] = {}
        for edge in edges:
            if edge.kind == RESTORED:
                restored.setdefault(int(edge.fields["behind"]), []).append(edge)
            else:
                self.shown[edge.event] = edge
                self.behind.pop(edge.event, None)
        self.behind |= restored

    def selection(
        self, messages: int, going_on: Mapping[str, Any], history: History, own_text: OwnText
    ) -> Selection:
        """Return the selection of the last call followed; `going_on` are its node's fields."""
        results, firsts = history.results, history.first_events
        numbers = {event: number for number, event in enumerate(results.event)}
        callers = {event: number for number, event in enumerate(results.call_event) if event >= 0}
        complete: list[int] = []
        excerpts: dict[int, Substitute] = {}
        arguments: dict[int, Substitute] = {}
        dropped: list[int] = []
        cut: dict[int, Substitute] = {}
        for event, edge in sorted(self.shown.items()):
            if event in numbers:
                if edge.kind == COMPLETE:
                    complete.append(numbers[event])
                elif edge.kind == EXCERPT:
                    excerpts[numbers[event]] = _substitute(edge, own_text)
            elif event in callers:
                if edge.kind == EXCERPT:
                    arguments[callers[event]] = _substitute(edge, own_text)
            else:
                message = bisect_right(firsts, event) - 1
                if edge.kind == DROPPED:
                    dropped.append(message)
                elif edge.kind == EXCERPT:
                    cut[message] = _substitute(edge, own_text)
        shown = {*complete, *excerpts}
        return Selection(
            messages,
            TextSelection(tuple(dropped), cut),
            tuple(complete),
            excerpts,
            {
                numbers[host]: RestoredText(tuple(_part(one, numbers, own_text) for one in parts))
                for host, edges in self.behind.items()
                if (parts := sorted(edges, key=lambda edge: int(edge.fields["place"])))
            },
            {result: made for result, made in arguments.items() if result in shown},
            bool(going_on["is_over"]),
            int(going_on["rebuilt"]),
            tuple(going_on["breakpoints"]),
            float(going_on["step_budget"]),
        )


def _substitute(edge: ShownEvent, own_text: OwnText) -> Substitute:
    text, ranges = text_of(edge.fields["pieces"], own_text(edge.event))
    return Substitute(text, edge.fields["tokens"], edge.fields["kind"], ranges)


def _part(edge: ShownEvent, numbers: Mapping[int, int], own_text: OwnText) -> RestoredPart:
    text, ranges = text_of(edge.fields["pieces"], own_text(edge.event))
    return RestoredPart(numbers[edge.event], text, edge.fields["tokens"], ranges)

"""What recorded calls showed, each told by its edges relative to the call before it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from uuid import UUID

from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.plan.selection import (
    RestoredPart,
    RestoredText,
    Selection,
    Substitute,
    TextSelection,
)
from contextrender_bridge.engine.plan.selection_edges import (
    COMPLETE,
    DROPPED,
    EXCERPT,
    RESTORED,
    CallEdges,
    OwnText,
    ShownEvent,
    text_of,
)

EDGE_BYTES = 400
"""What an edge takes in memory, about."""


@dataclass
class EdgeTrail:
    """What is shown, while calls' edges are followed in order, by event number."""

    shown: dict[int, ShownEvent] = field(default_factory=dict)
    behind: dict[int, list[ShownEvent]] = field(default_factory=dict)
    by_kind: dict[str, set[int]] = field(
        default_factory=lambda: {COMPLETE: set(), EXCERPT: set(), DROPPED: set()}
    )

    def follow(self, edges: Iterable[ShownEvent]) -> None:
        """Take in the edges of the next call."""
        restored: dict[int, list[ShownEvent]] = {}
        for edge in edges:
            if edge.kind == RESTORED:
                restored.setdefault(int(edge.fields["behind"]), []).append(edge)
                continue
            if (known := self.shown.get(edge.event)) is not None:
                self.by_kind[known.kind].discard(edge.event)
            self.by_kind[edge.kind].add(edge.event)
            self.shown[edge.event] = edge
            self.behind.pop(edge.event, None)
        self.behind |= restored

    @property
    def complete(self) -> Set[int]:
        """The events shown in full; a text or a call only if the call before showed less of it."""
        return self.by_kind[COMPLETE]

    @property
    def partial(self) -> Set[int]:
        """The events of which a part is shown, in their own place or behind a result."""
        restored = {edge.event for edges in self.behind.values() for edge in edges}
        return self.by_kind[EXCERPT] | (restored - self.complete)

    def edges(self) -> list[ShownEvent]:
        """Return the edges that tell what is shown without a call before."""
        return [*self.shown.values(), *(edge for edges in self.behind.values() for edge in edges)]

    def selection(
        self, messages: int, call: CallEdges, history: History, own_text: OwnText
    ) -> Selection:
        """Return the selection of the last call followed, which is `call`."""
        results, firsts = history.results, history.first_events
        numbers = {event: number for number, event in enumerate(results.event)}
        callers = {event: number for number, event in enumerate(results.call_event) if event >= 0}
        complete: list[int] = []
        excerpts: dict[int, Substitute] = {}
        arguments: dict[int, Substitute] = {}
        next_excerpts: dict[int, Substitute] = {}
        dropped: list[int] = []
        cut: dict[int, Substitute] = {}
        for event, edge in sorted(self.shown.items()):
            if event in numbers:
                if edge.kind == COMPLETE:
                    complete.append(numbers[event])
                elif edge.kind == EXCERPT:
                    excerpts[numbers[event]] = _substitute(edge, own_text)
                if edge.kind != DROPPED and edge.fields.get("next_pieces"):
                    text, ranges = text_of(edge.fields["next_pieces"], own_text(event))
                    tokens = edge.fields["next_tokens"]
                    next_excerpts[numbers[event]] = Substitute(text, tokens, ranges=ranges)
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
            next_excerpts,
            call.is_over,
            call.rebuilt,
            call.breakpoints,
            call.step_budget,
        )


def _substitute(edge: ShownEvent, own_text: OwnText) -> Substitute:
    text, ranges = text_of(edge.fields["pieces"], own_text(edge.event))
    return Substitute(text, edge.fields["tokens"], edge.fields["kind"], ranges)


def _part(edge: ShownEvent, numbers: Mapping[int, int], own_text: OwnText) -> RestoredPart:
    text, ranges = text_of(edge.fields["pieces"], own_text(edge.event))
    return RestoredPart(numbers[edge.event], text, edge.fields["tokens"], ranges)


@dataclass
class SelectionChain:
    """Calls by their ids, and the call before each, as far as they are known.

    A call of which an edge is lost is not in `calls`; then no later call that is told relative to
    it can be read either.
    """

    calls: dict[UUID, CallEdges] = field(default_factory=dict)
    before: dict[UUID, UUID] = field(default_factory=dict)
    _trail: EdgeTrail = field(default_factory=EdgeTrail)
    _at: UUID | None = None

    def trail(self, call: UUID) -> EdgeTrail | None:
        """Return what is shown at a call, to be read until the next time; None if that is lost.

        Asked of one call after the other, it follows only the edges of the next one.
        """
        steps: list[UUID] = []
        place: UUID | None = call
        while place is None or place != self._at:
            if place is None or place not in self.calls or len(steps) > len(self.calls):
                return None
            steps.append(place)
            if not self.calls[place].is_relative:
                self._trail = EdgeTrail()
                break
            place = self.before.get(place)
        self._at = None
        try:
            for step in reversed(steps):
                self._trail.follow(self.calls[step].shown)
        except (KeyError, ValueError, TypeError):  # an edge is damaged
            return None
        self._at = call
        return self._trail

    def selection(
        self, call: UUID, messages: int, history: History, own_text: OwnText
    ) -> Selection | None:
        """Return the selection of a call with so many messages; None if that is lost."""
        trail = self.trail(call)
        if trail is None:
            return None
        try:
            return trail.selection(messages, self.calls[call], history, own_text)
        except (KeyError, ValueError, TypeError, IndexError):  # an edge is damaged
            return None

    def update(self, calls: Mapping[UUID, CallEdges], before: Mapping[UUID, UUID]) -> None:
        """Add calls; those that are known are replaced."""
        self.calls |= calls
        self.before |= before
        self._trail, self._at = EdgeTrail(), None

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return EDGE_BYTES * sum(len(call.shown) + 1 for call in self.calls.values())

"""The selections of recorded calls, which are stored as changes since the call before."""

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
"""The memory of an edge, about."""


@dataclass
class EdgeTrail:
    """The state of a prompt, while the edges of its calls are followed in order.

    `by_event` has the last edge to each event, `restored` the edges to the results that are
    restored behind a result, by its event. `by_kind` has the events by the kind of their edge.
    """

    by_event: dict[int, ShownEvent] = field(default_factory=dict)
    restored: dict[int, list[ShownEvent]] = field(default_factory=dict)
    by_kind: dict[str, set[int]] = field(
        default_factory=lambda: {COMPLETE: set(), EXCERPT: set(), DROPPED: set()}
    )

    def follow(self, edges: Iterable[ShownEvent]) -> None:
        """Apply the edges of the next call."""
        restored: dict[int, list[ShownEvent]] = {}
        for edge in edges:
            if edge.kind == RESTORED:
                restored.setdefault(int(edge.fields["host_event"]), []).append(edge)
                continue
            if (last_edge := self.by_event.get(edge.event)) is not None:
                self.by_kind[last_edge.kind].discard(edge.event)
            self.by_kind[edge.kind].add(edge.event)
            self.by_event[edge.event] = edge
            self.restored.pop(edge.event, None)
        self.restored |= restored

    @property
    def complete(self) -> Set[int]:
        """The events shown in full. Texts and calls are among them only if they were cut before."""
        return self.by_kind[COMPLETE]

    @property
    def partial(self) -> Set[int]:
        """The events of which a part is shown, in their own place or behind a result."""
        restored = {edge.event for edges in self.restored.values() for edge in edges}
        return self.by_kind[EXCERPT] | (restored - self.complete)

    def edges(self) -> list[ShownEvent]:
        """Return the edges that store the complete state, without a call before."""
        restored = (edge for edges in self.restored.values() for edge in edges)
        return [*self.by_event.values(), *restored]

    def selection(
        self, messages: int, call: CallEdges, history: History, own_text: OwnText
    ) -> Selection:
        """Return the selection of the last call that was followed, which is `call`."""
        results, firsts = history.results, history.first_events
        numbers = {event: number for number, event in enumerate(results.event)}
        callers = {event: number for number, event in enumerate(results.call_event) if event >= 0}
        result_edges: dict[int, ShownEvent] = {}
        call_edges: dict[int, ShownEvent] = {}
        text_edges: dict[int, ShownEvent] = {}
        for event, edge in sorted(self.by_event.items()):
            if event in numbers:
                result_edges[numbers[event]] = edge
            elif event in callers:
                call_edges[callers[event]] = edge
            elif firsts[message := bisect_right(firsts, event) - 1] == event:
                text_edges[message] = edge
        complete = _keys_of(COMPLETE, result_edges)
        excerpts = _substitutes(result_edges, own_text)
        arguments = _substitutes(call_edges, own_text)
        in_prompt = {*complete, *excerpts}
        return Selection(
            messages,
            TextSelection(_keys_of(DROPPED, text_edges), _substitutes(text_edges, own_text)),
            complete,
            excerpts,
            {
                numbers[host]: RestoredText(tuple(_part(edge, numbers, own_text) for edge in parts))
                for host, edges in self.restored.items()
                if (parts := sorted(edges, key=lambda edge: int(edge.fields["place"])))
            },
            {result: cut for result, cut in arguments.items() if result in in_prompt},
            _next_excerpts(result_edges, own_text),
            call.is_over,
            call.rebuilt,
            call.breakpoints,
            call.step_budget,
        )


def _keys_of(kind: str, edges: Mapping[int, ShownEvent]) -> tuple[int, ...]:
    return tuple(key for key, edge in edges.items() if edge.kind == kind)


def _substitutes(edges: Mapping[int, ShownEvent], own_text: OwnText) -> dict[int, Substitute]:
    """Return the substitutes that edges store, by the same keys."""
    substitutes: dict[int, Substitute] = {}
    for key in _keys_of(EXCERPT, edges):
        event, fields = edges[key].event, edges[key].fields
        text, ranges = text_of(fields["pieces"], own_text(event))
        substitutes[key] = Substitute(text, fields["tokens"], fields["kind"], ranges)
    return substitutes


def _next_excerpts(
    result_edges: Mapping[int, ShownEvent], own_text: OwnText
) -> dict[int, Substitute]:
    """Return the excerpts of results that the next call shows."""
    excerpts: dict[int, Substitute] = {}
    for result, edge in result_edges.items():
        if edge.kind != DROPPED and edge.fields.get("next_pieces"):
            text, ranges = text_of(edge.fields["next_pieces"], own_text(edge.event))
            excerpts[result] = Substitute(text, edge.fields["next_tokens"], ranges=ranges)
    return excerpts


def _part(edge: ShownEvent, numbers: Mapping[int, int], own_text: OwnText) -> RestoredPart:
    text, ranges = text_of(edge.fields["pieces"], own_text(edge.event))
    return RestoredPart(numbers[edge.event], text, edge.fields["tokens"], ranges)


@dataclass
class SelectionChain:
    """Stored calls by id, and the call before each.

    A call with a missing edge is not in `calls`. Later calls that are stored relative to it cannot
    be read either.
    """

    calls: dict[UUID, CallEdges] = field(default_factory=dict)
    before: dict[UUID, UUID] = field(default_factory=dict)
    _trail: EdgeTrail = field(default_factory=EdgeTrail)
    _at: UUID | None = None

    def trail(self, call: UUID) -> EdgeTrail | None:
        """Return the state of the prompt at a call, or None if an edge that it needs is missing.

        It is valid until the next call of this method. For consecutive calls, only the edges of the
        next one are followed.
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
                self._trail.follow(self.calls[step].edges)
        except (KeyError, ValueError, TypeError):  # an edge is corrupted
            return None
        self._at = call
        return self._trail

    def selection(
        self, call: UUID, messages: int, history: History, own_text: OwnText
    ) -> Selection | None:
        """Return the selection of a call with so many messages; None if an edge is missing."""
        trail = self.trail(call)
        if trail is None:
            return None
        try:
            return trail.selection(messages, self.calls[call], history, own_text)
        except (KeyError, ValueError, TypeError, IndexError):  # an edge is corrupted
            return None

    def update(self, calls: Mapping[UUID, CallEdges], before: Mapping[UUID, UUID]) -> None:
        """Add calls, or replace them."""
        self.calls |= calls
        self.before |= before
        self._trail, self._at = EdgeTrail(), None

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return EDGE_BYTES * sum(len(call.edges) + 1 for call in self.calls.values())

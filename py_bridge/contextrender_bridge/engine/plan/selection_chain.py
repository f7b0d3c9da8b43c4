"""The selections of recorded calls, which are stored as changes since the call before.

Long because reading one call's selection needs the edges of all calls before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from uuid import UUID

from contextrender_bridge.engine.history.history import NO_CALL, History
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
    CallEdge,
    CallEdges,
    EventText,
    text_of,
)

EDGE_BYTES = 400
"""An estimate of the memory of an edge, in bytes."""


@dataclass
class EdgeTrail:
    """The state of a prompt, built from the edges of a branch's calls in order.

    `by_event` maps each event to the last edge to it. `by_kind` maps each kind of edge to the
    events whose last edge is of this kind. A part of a result may be shown again after another
    result, its host. `restored` maps a host's event to the edges to the results shown after it.
    """

    by_event: dict[int, CallEdge] = field(default_factory=dict)
    restored: dict[int, list[CallEdge]] = field(default_factory=dict)
    by_kind: dict[str, set[int]] = field(
        default_factory=lambda: {COMPLETE: set(), EXCERPT: set(), DROPPED: set()}
    )

    def follow(self, edges: Iterable[CallEdge]) -> None:
        """Apply the edges of the next call.

        An edge to an event replaces the last edge to it. If the event is a host, the edge also
        removes the restored text after it, unless the same call has edges that restore text there.
        """
        restored: dict[int, list[CallEdge]] = {}
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
        """The events whose last edge says that they are complete.

        These are results, and the texts and calls that were cut before. Texts and calls that were
        never cut have no edge.
        """
        return self.by_kind[COMPLETE]

    @property
    def partial(self) -> Set[int]:
        """The events of which a part is shown, at their own position or after another result."""
        restored = {edge.event for edges in self.restored.values() for edge in edges}
        return self.by_kind[EXCERPT] | (restored - self.complete)

    def edges(self) -> list[CallEdge]:
        """Return the edges that a call needs to store the whole state, not only its changes."""
        restored = (edge for edges in self.restored.values() for edge in edges)
        return [*self.by_event.values(), *restored]

    def selection(
        self, messages: int, call: CallEdges, history: History, event_text: EventText
    ) -> Selection:
        """Return the selection of `call`, the last call whose edges were followed.

        `messages` is the number of messages before the call. `event_text` reads the original text
        of an event, because stored excerpts are ranges of the original text.
        """
        # Edges lead to events. Find the result, call or text of each event.
        result_numbers = {event: result for result, event in enumerate(history.results.event)}
        result_edges, call_edges, text_edges = self._edges_by_number(history, result_numbers)
        complete = _keys_of(COMPLETE, result_edges)
        excerpts = _substitutes(result_edges, event_text)
        text = TextSelection(
            dropped=_keys_of(DROPPED, text_edges), cut=_substitutes(text_edges, event_text)
        )
        # Parts of results that are shown again after another result, their host.
        restored = {
            result_numbers[host]: _restored_text(edges, result_numbers, event_text)
            for host, edges in self.restored.items()
        }
        # A call is dropped with its result, so cut arguments count only if the result is shown.
        shown_results = {*complete, *excerpts}
        shown_call_edges = {r: edge for r, edge in call_edges.items() if r in shown_results}
        return Selection(
            messages,
            text=text,
            complete=complete,
            excerpts=excerpts,
            restored=restored,
            arguments=_substitutes(shown_call_edges, event_text),
            next_excerpts=_next_excerpts(result_edges, event_text),
            is_over=call.is_over,
            rebuilt=call.rebuilt,
            breakpoints=call.breakpoints,
            budget=call.step_budget,
        )

    def _edges_by_number(
        self, history: History, result_numbers: Mapping[int, int]
    ) -> tuple[dict[int, CallEdge], dict[int, CallEdge], dict[int, CallEdge]]:
        """Return the edges of `by_event` in three mappings, each in the order of events.

        - The first maps the number of a result to the edge to this result.
        - The second maps the number of a result to the edge to the call that returned it.
        - The third maps the position of a message to the edge to its text.

        `result_numbers` maps the event of each result to the result's number.
        """
        call_events = history.results.call_event
        result_of_call = {event: r for r, event in enumerate(call_events) if event != NO_CALL}
        first_events = history.first_events
        result_edges: dict[int, CallEdge] = {}
        call_edges: dict[int, CallEdge] = {}
        text_edges: dict[int, CallEdge] = {}
        # The events are numbered through the history, so their order is the order of messages.
        for event, edge in sorted(self.by_event.items()):
            message = bisect_right(first_events, event) - 1
            if event in result_numbers:
                result_edges[result_numbers[event]] = edge
            elif event in result_of_call:
                call_edges[result_of_call[event]] = edge
            elif first_events[message] == event:  # a message's first event is its text
                text_edges[message] = edge
        return result_edges, call_edges, text_edges


def _keys_of(kind: str, edges: Mapping[int, CallEdge]) -> tuple[int, ...]:
    """Return the keys of the edges of this kind."""
    return tuple(key for key, edge in edges.items() if edge.kind == kind)


def _substitutes(edges: Mapping[int, CallEdge], event_text: EventText) -> dict[int, Substitute]:
    """Return the substitutes that edges of the kind `EXCERPT` store, by the same keys."""
    substitutes: dict[int, Substitute] = {}
    for key in _keys_of(EXCERPT, edges):
        event, fields = edges[key].event, edges[key].fields
        text, ranges = text_of(fields["pieces"], event_text(event))
        substitutes[key] = Substitute(text, fields["tokens"], fields["kind"], ranges)
    return substitutes


def _next_excerpts(
    result_edges: Mapping[int, CallEdge], event_text: EventText
) -> dict[int, Substitute]:
    """Return the excerpts to which the next call shortens results, by the result's number.

    Only the edges of complete results and of excerpts may store such an excerpt.
    """
    excerpts: dict[int, Substitute] = {}
    for result, edge in result_edges.items():
        if edge.fields.get("next_pieces"):
            text, ranges = text_of(edge.fields["next_pieces"], event_text(edge.event))
            excerpts[result] = Substitute(text, edge.fields["next_tokens"], ranges=ranges)
    return excerpts


def _restored_text(
    edges: Iterable[CallEdge], result_numbers: Mapping[int, int], event_text: EventText
) -> RestoredText:
    """Return the parts of results that are shown again after another result, in their order."""
    parts: list[RestoredPart] = []
    for edge in sorted(edges, key=lambda edge: int(edge.fields["place"])):
        text, ranges = text_of(edge.fields["pieces"], event_text(edge.event))
        result = result_numbers[edge.event]
        parts.append(RestoredPart(result, text, edge.fields["tokens"], ranges))
    return RestoredText(tuple(parts))


@dataclass
class SelectionChain:
    """The stored calls of a session, from which the selection of each call is computed.

    `calls` maps the id of a call to its edges. If an edge is missing, the call is left out, and
    later calls that store changes since it cannot be read. `before` maps the id of a call to the id
    of the call before it. `_trail` is the state of the prompt at the call `_trail_call`.
    """

    calls: dict[UUID, CallEdges] = field(default_factory=dict)
    before: dict[UUID, UUID] = field(default_factory=dict)
    _trail: EdgeTrail = field(default_factory=EdgeTrail)
    _trail_call: UUID | None = None

    def trail(self, call: UUID) -> EdgeTrail | None:
        """Return the state of the prompt at a call, or None if an edge that it needs is missing.

        Use the returned state before this method is called again, because that changes the state.
        Reading the calls of a branch in order is fast: only the edges of the next call are applied.
        """
        calls_to_follow = self._calls_since_trail(call)
        if calls_to_follow is None:
            return None
        # If the first call stores a whole prompt, begin with an empty state.
        if calls_to_follow and not self.calls[calls_to_follow[0]].is_relative:
            self._trail = EdgeTrail()
        self._trail_call = None  # so that an error below does not leave a wrong state in use
        try:
            for followed_call in calls_to_follow:
                self._trail.follow(self.calls[followed_call].edges)
        except (KeyError, ValueError, TypeError):  # an edge is corrupted
            return None
        self._trail_call = call
        return self._trail

    def _calls_since_trail(self, call: UUID) -> list[UUID] | None:
        """Return the calls whose edges must be applied to `_trail` to get the state at `call`.

        They end with `call`, and are in order. If `_trail_call` is earlier on the same branch, they
        are the calls after it. Otherwise they begin with a call that stores a whole prompt. Return
        None if one of these calls is missing.
        """
        newest_first: list[UUID] = []
        current: UUID | None = call
        # Go back from `call` to the first call that is needed.
        while current is None or current != self._trail_call:
            is_cyclic = len(newest_first) > len(self.calls)  # only if edges are corrupted
            if current is None or current not in self.calls or is_cyclic:
                return None
            newest_first.append(current)
            if not self.calls[current].is_relative:
                break
            current = self.before.get(current)
        return newest_first[::-1]

    def selection(
        self, call: UUID, messages: int, history: History, event_text: EventText
    ) -> Selection | None:
        """Return the selection of a call that had the first `messages` messages.

        Return None if an edge that it needs is missing.
        """
        trail = self.trail(call)
        if trail is None:
            return None
        try:
            return trail.selection(messages, self.calls[call], history, event_text)
        except (KeyError, ValueError, TypeError, IndexError):  # an edge is corrupted
            return None

    def update(self, calls: Mapping[UUID, CallEdges], before: Mapping[UUID, UUID]) -> None:
        """Add stored calls, or replace those with the same ids, and add the call before each."""
        self.calls |= calls
        self.before |= before
        self._trail, self._trail_call = EdgeTrail(), None  # a followed call may be replaced

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return EDGE_BYTES * sum(len(call.edges) + 1 for call in self.calls.values())

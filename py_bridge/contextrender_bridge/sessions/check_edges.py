"""The check of a session's edges and model calls. The nodes determine which edges are right.

Long because it has a check for each kind of edge.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.usage_totals import total_of
from contextrender_bridge.engine.history.branch_matching import BranchInfo
from contextrender_bridge.engine.history.event_decoding import append_stored
from contextrender_bridge.engine.history.history import NO_CALL, History
from contextrender_bridge.engine.plan.selection_edges import KINDS
from contextrender_bridge.sessions.check_nodes import NodeCheck
from contextrender_bridge.sessions.findings import DERIVED, Edge, Kind, StoreFinding
from contextrender_bridge.sessions.ids import (
    CALL_EDGES,
    branch_id,
    call_id,
    earlier_call_ids,
)
from contextrender_bridge.store import rows

DERIVED_FROM_TARGET: Final = ("HasFirstCall", "NextCall", "Superseded")
"""The types of edges that are derived from the node at their target. The other derived edges are
derived from the node at their source."""


def check_edges(nodes: NodeCheck) -> Iterator[StoreFinding]:
    """Yield the missing, corrupted and unreadable edges, then the missing model calls."""
    check = _EdgeCheck(nodes)
    reported: set[Edge | None] = set()
    for finding in check.edge_findings():
        reported.add(finding.edge)
        yield finding
    for edge, data in check.edges.items():
        damage = _damage(data) if check.has_type(edge) else "there is no such type"
        if edge not in reported and damage:
            yield nodes.finding("unreadable", f"an edge {check.name(edge)}: {damage}", edge=edge)
    yield from check.missing_calls()


class _EdgeCheck:
    """The comparison of a session's stored edges with the edges that its nodes require."""

    def __init__(self, nodes: NodeCheck) -> None:
        """Read the session's edges, and the calls that they name."""
        self._nodes = nodes
        self.edges: dict[Edge, bytes | None] = {
            (source, kind, target): data
            for source, kind, target, data in nodes.store.edges(nodes.owner, nodes.node_ids)
        }
        self._from: defaultdict[UUID, set[Edge]] = defaultdict(set)
        """The stored edges that lead from each node."""
        self._into: defaultdict[UUID, set[Edge]] = defaultdict(set)
        """The stored edges that lead to each node."""
        for edge in self.edges:
            source, _, target = edge
            self._from[source].add(edge)
            self._into[target].add(edge)
        # Find the calls at the ends of edges, because the node of a call may be missing.
        call_edges = {nodes.store.kinds.number("nodes.edges", name): name for name in CALL_EDGES}
        calls: set[UUID] = set()
        for source, kind, target in self.edges:
            name = call_edges.get(kind)
            if name in ("HasFirstCall", "NextCall"):
                calls.add(target)
            if name is not None and name != "HasFirstCall":  # `HasFirstCall` leads from a branch.
                calls.add(source)
        self._missing_calls = calls - nodes.readable.keys() - nodes.unread_calls
        """Calls that edges lead to or from, but that have no node."""
        self._call_names: dict[UUID, str] = {}
        """The name that findings use for each call that the branches may have, by the call's id."""
        self._checked: dict[UUID, str] = {}
        """The calls and events whose edges of types in `DERIVED` are compared with `_expected`.
        Each id has the name that findings use."""
        self._expected: set[Edge] = set()
        """The edges of types in `DERIVED` that the nodes require or permit."""

    def name(self, edge: Edge) -> str:
        """Return the name of an edge's type."""
        return self._nodes.store.kinds.name(edge[1])[1]

    def has_type(self, edge: Edge) -> bool:
        """Return whether the number of an edge's type is that of a type."""
        return self._nodes.store.kinds.has(edge[1])

    def edge_findings(self) -> Iterator[StoreFinding]:
        """Yield each edge that the nodes require but that is missing, or that contradicts them.

        First compare the edges that the nodes of the session and of each branch require with the
        stored edges. `_call_findings` and `_reuse_findings` also add to `_expected` and `_checked`.
        Then report the stored edges that are not expected, if their types are in `DERIVED`.
        """
        nodes = self._nodes
        owns = self._edge(nodes.owner, "Owns", nodes.session)
        yield from self._missing_edges([owns], "the session")
        for number, info in enumerate(nodes.branches):
            branch, branch_name = branch_id(nodes.session, number), f"branch {number}"
            has_branch = self._edge(nodes.session, "HasBranch", branch)
            yield from self._missing_edges([has_branch], branch_name)
            # Without the branch or one of its parents, its events cannot be found.
            if info is None or (ids := nodes.event_ids_of(info)) is None:
                continue
            history = self._history(info, ids)
            yield from self._missing_edges(self._event_edges(info, ids, history), branch_name)
            # The types of the edges above are not in `DERIVED`, so they need not be in `_expected`.
            superseded = self._superseded_edges(info, ids, history)
            self._expected |= {*superseded}
            yield from self._missing_edges(superseded, branch_name)
            yield from self._call_findings(info, ids, history)
            yield from self._reuse_findings(info, ids, history)
        # Report the stored edges that are not required.
        for edge in self.edges.keys() - self._expected:
            source, _, target = edge
            name = self.name(edge)
            # If the node from which the edge is derived was not checked, the edge may be right.
            origin = target if name in DERIVED_FROM_TARGET else source
            if name in DERIVED and origin in self._checked:
                message = f"an edge {name} unlike {self._checked[origin]}"
                yield nodes.finding("corrupted", message, edge=edge)

    def missing_calls(self) -> Iterator[StoreFinding]:
        """Yield the calls that exist only in edges, and a wrong number of calls in the totals.

        The session's totals must count as many calls as the `times_counted` of all call nodes
        together. This can be checked only if every call's node can be read.
        """
        nodes = self._nodes
        # Report the missing calls. A call of a damaged branch may have no name.
        for name in sorted(self._call_names.get(id, "a model call") for id in self._missing_calls):
            yield nodes.finding("missing", name)
        if nodes.session not in nodes.readable:
            return
        # Compare the number of calls in the totals with the numbers in the nodes of the calls.
        try:
            in_totals = total_of(nodes.readable[nodes.session].get("usage_totals", ())).calls
        except (ValueError, TypeError):
            return
        in_nodes = sum(int(fields.get("times_counted", 0)) for fields in nodes.readable.values())
        # A missing or unreadable call may have been counted any number of times.
        is_count_known = not self._missing_calls and not nodes.unread_calls
        if is_count_known and in_totals != in_nodes:
            message = f"the session's sums count {in_totals} model calls, its nodes {in_nodes}"
            yield nodes.finding("missing" if in_totals > in_nodes else "corrupted", message)

    def _missing_edges(self, edges: Sequence[Edge], part: str) -> Iterator[StoreFinding]:
        """Yield each of these edges that is not stored although the nodes at its ends can be read.

        `part` is the name, for findings, of the part of the session that the edges belong to.
        """
        for edge in edges:
            source, _, target = edge
            ends = {source, target} - {self._nodes.owner}  # The owner's root is always there.
            if edge not in self.edges and ends <= self._nodes.readable.keys():
                fields = self._nodes.readable[target]
                is_event = "position" in fields
                event = f"event {fields.get('number')} of " if is_event else ""
                message = f"the edge {self.name(edge)} to {event}{part}"
                yield self._nodes.finding("missing", message, edge=edge)

    def _event_edges(self, info: BranchInfo, ids: Sequence[UUID], history: History) -> list[Edge]:
        """Return the edges that a branch's own events require.

        An edge leads to each event from the event before it, to the first own event also from the
        branch, and to a result from its tool call. `ids` are the ids of the branch's events.
        """
        branch = branch_id(self._nodes.session, info.number)
        first, results = info.fork_events, history.results
        edges = []
        if first < len(ids):
            edges.append(self._edge(branch, "HasFirstEvent", ids[first]))
        later_events = range(max(first, 1), info.events)
        edges += [self._edge(ids[event - 1], "Next", ids[event]) for event in later_events]
        for event, call_event in zip(results.event, results.call_event, strict=True):
            if event >= first and call_event != NO_CALL:
                edges.append(self._edge(ids[call_event], "HasResult", ids[event]))
        return edges

    def _superseded_edges(
        self, info: BranchInfo, ids: Sequence[UUID], history: History
    ) -> list[Edge]:
        """Return the edges to a branch's own results from the older results that they supersede."""
        events = history.results.event
        return [
            self._edge(ids[events[old]], "Superseded", ids[event])
            for result, event in enumerate(events)
            if event >= info.fork_events
            for old in history.files.superseded_by(result)
        ]

    def _call_findings(
        self, info: BranchInfo, ids: Sequence[UUID], history: History
    ) -> Iterator[StoreFinding]:
        """Yield the missing edges of a branch's calls.

        Each call that can be read requires these edges: from the call to its answer, if it has one;
        and from the previous call or, if there is none, from the branch to the call. Compare the
        numbers of the call's other edges with the numbers in its record.
        """
        nodes, required = self._nodes, list[Edge]()
        # Not every possible call was made.
        for id, messages, is_second in _possible_calls(nodes.session, info, history):
            name = f"the model call with {messages} messages of branch {info.number}"
            self._call_names[id] = name
            # If the next message is damaged, it is unknown whether it is the call's answer.
            is_next_damaged = messages == len(history) < info.messages
            if is_next_damaged or not _is_call(nodes.readable.get(id)):
                continue
            self._checked[id] = f"the record of {name}"
            is_answer_next = history.roles[messages : messages + 1] == ["assistant"]
            # A call can be made again with the same messages (`is_second`). Only the first call has
            # the answer.
            if is_answer_next and not is_second:
                required.append(self._edge(id, "AnsweredBy", ids[history.events_before(messages)]))
            required += self._edges_to_call(id, info, history, messages)
            yield from self._edge_counts(id)
        # All of these edges are right if they are stored, and missing if they are not.
        self._expected |= set(required)
        yield from self._missing_edges(required, f"branch {info.number}")

    def _edges_to_call(
        self, id: UUID, info: BranchInfo, history: History, messages: int
    ) -> list[Edge]:
        """Return the edge to the call `id` from the call before it, or from its branch.

        If the call before it cannot be read, any edge to the call `id` may be right. Then add all
        stored edges to it to `_expected`, and return an empty list.
        """
        nodes = self._nodes
        absent = self._missing_calls | nodes.unread_calls
        earlier = earlier_call_ids(
            nodes.session, nodes.known_branches, info.number, history, messages
        )
        for previous in earlier:
            if previous in absent:
                self._expected |= self._into[id]
                return []
            if _is_call(nodes.readable.get(previous)):  # Otherwise no call was made there.
                return [self._edge(previous, "NextCall", id)]
        return [self._edge(branch_id(nodes.session, info.number), "HasFirstCall", id)]

    def _edge_counts(self, id: UUID) -> Iterator[StoreFinding]:
        """Yield a finding if a call has more or fewer edges than its node says.

        The node has two numbers: of the edges of the call's selection (`edges`), and of the edges
        to results that its answer missed (`misses`).
        """
        fields = self._nodes.readable[id]
        for kinds, count, verb in (
            (KINDS, fields.get("edges", -1), "showed"),
            (("Misses",), fields.get("misses", 0), "lacked"),
        ):
            edges = {edge for edge in self._from[id] if self.name(edge) in kinds}
            # Which of these edges are right is not known, only how many there must be.
            self._expected |= edges
            # A negative number means that the selection is not stored.
            if count < 0:
                continue
            missing_count, subject = count - len(edges), f"of what {self._call_names[id]} {verb}"
            if missing_count > 0:
                yield self._nodes.finding("missing", f"{missing_count} edges {subject}", node=id)
            elif missing_count < 0:
                message = f"{-missing_count} edges too many {subject}"
                yield self._nodes.finding("corrupted", message, node=id)

    def _reuse_findings(
        self, info: BranchInfo, ids: Sequence[UUID], history: History
    ) -> Iterator[StoreFinding]:
        """Yield the reuse edges that a branch's texts require but that are missing or wrong.

        An edge leads from an event to each result that it uses, and has the values used. A finding
        has the correct row, with which the edge can be repaired.
        """
        uses = {
            self._edge(ids[use.operation], "Reuse", ids[history.results.event[use.result]]): use
            for use in history.reuse.uses
            if use.operation >= info.fork_events
        }
        for edge, use in uses.items():
            if edge in self.edges and _values(self.edges[edge]) == set(use.values):
                continue
            message = f"an edge Reuse from event {use.operation} of branch {info.number}"
            row = rows.pack(rows.encode({"values": list(use.values)}))
            kind: Kind = "corrupted" if edge in self.edges else "missing"
            yield self._nodes.finding(kind, message, edge=edge, row=row)
        self._expected |= uses.keys()
        # All uses by events before the first damaged one are known. So mark these events as
        # checked, and `edge_findings` reports any other reuse edge of them.
        for id in ids[info.fork_events : self._nodes.intact[info.number]]:
            self._checked[id] = f"the texts of branch {info.number}"

    def _history(self, info: BranchInfo, ids: Sequence[UUID]) -> History:
        """Return the history of a branch up to its first corrupted or missing event."""
        history = History()
        intact = ids[: self._nodes.intact[info.number]]
        rows_of_events = (self._nodes.readable[id] for id in intact)
        append_stored(history, rows_of_events, embed_model="")  # Vectors are not compared.
        return history

    def _edge(self, source: UUID, name: str, target: UUID) -> Edge:
        """Return the edge of the type `name` from `source` to `target`."""
        return source, self._nodes.store.kinds.number("nodes.edges", name), target


def _damage(data: bytes | None) -> str:
    """Return why an edge's row cannot be read; empty if it can, or if it is None."""
    try:
        if data is not None:
            rows.read(data)
    except ValueError as damage:
        return str(damage)
    return ""


def _values(data: bytes | None) -> set[str] | None:
    """Return the values in the row of a reuse edge; None if it cannot be read."""
    try:
        return set(rows.read_fields(data or b"")["values"])
    except (ValueError, KeyError, TypeError):
        return None


def _possible_calls(
    session: UUID, info: BranchInfo, history: History
) -> Iterator[tuple[UUID, int, bool]]:
    """Yield, for each call that a branch may have, its id, its number of messages and `is_second`.

    `is_second` is true for a call that was made again with the same messages, when the branch
    already had later ones. Such a call has another id.
    """
    for messages in range(info.fork_messages, len(history) + 1):
        events = history.events_before(messages)
        for is_second in (False, True):
            yield call_id(session, info.number, events, is_second), messages, is_second


def _is_call(fields: Mapping[str, Any] | None) -> bool:
    """Return whether a node's fields can be read as a model call's; False if there are none."""
    if not fields:
        return False
    try:
        CallRecord.from_json(fields)
    except (KeyError, TypeError, ValueError):
        return False
    return True

"""A session's edges against what its nodes' numbers and texts say must be there, and its calls."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.usage_totals import total_of
from contextrender_bridge.engine.history.event_decoding import append_stored
from contextrender_bridge.engine.history.history import NO_CALL, History
from contextrender_bridge.engine.history.session_cache import BranchInfo
from contextrender_bridge.engine.plan.selection_edges import KINDS
from contextrender_bridge.sessions.check_nodes import NodeCheck
from contextrender_bridge.sessions.findings import FOLLOW, Edge, Finding, Kind
from contextrender_bridge.sessions.ids import (
    JOINS,
    branch_id,
    call_id,
    earlier_call_ids,
)
from contextrender_bridge.store import rows

INTO_CALLS: Final = ("AwaitsAnswer", "NextCall")
"""The types of edges that what their target tells gives."""


def check_edges(nodes: NodeCheck) -> Iterator[Finding]:
    """Edges that are lost, unreadable or tell otherwise; then model calls that are lost."""
    check = _EdgeCheck(nodes)
    told_of: set[Edge | None] = set()
    for finding in check.compared():
        told_of.add(finding.edge)
        yield finding
    for edge, data in check.there.items():
        if edge not in told_of and (damage := _damage(data)):
            told = f"an edge {check.name(edge)}: {damage}"
            yield nodes.finding("unreadable", told, edge=edge)
    yield from check.lost_calls()


class _EdgeCheck:
    def __init__(self, nodes: NodeCheck) -> None:
        self._nodes = nodes
        self.there: dict[Edge, bytes | None] = {
            (source, kind, target): data
            for source, kind, target, data in nodes.store.edges(nodes.owner, nodes.belong)
        }
        self._from: defaultdict[UUID, set[Edge]] = defaultdict(set)
        self._into: defaultdict[UUID, set[Edge]] = defaultdict(set)
        for edge in self.there:
            self._from[edge[0]].add(edge)
            self._into[edge[2]].add(edge)
        joins = {nodes.store.kinds.number("nodes.edges", name): name for name in JOINS}
        named = {
            target if joins[kind] == "AwaitsAnswer" else source
            for source, kind, target in self.there
            if kind in joins
        }
        self._lost = named - nodes.found.keys() - nodes.unread
        """Calls that edges name and that are not there."""
        self._calls: dict[UUID, str] = {}
        """What may be told of each call that there may be."""
        self._judged: dict[UUID, str] = {}
        """Calls and operations, all of whose edges are in `_wanted`."""
        self._wanted: set[Edge] = set()

    def name(self, edge: Edge) -> str:
        """The type's."""
        return self._nodes.store.kinds.name(edge[1])[1]

    def compared(self) -> Iterator[Finding]:
        """What is there, branch by branch, against what must be."""
        nodes = self._nodes
        yield from self._lacking([self._edge(nodes.owner, "Owns", nodes.session)], "the session")
        for number, info in enumerate(nodes.branches):
            branch, told = branch_id(nodes.session, number), f"branch {number}"
            yield from self._lacking([self._edge(nodes.session, "HasBranch", branch)], told)
            if info is None or (ids := nodes.line(info)) is None:
                continue
            history = self._history(info, ids)
            yield from self._lacking(self._order(info, ids, history), told)
            yield from self._view(info, ids, history)
            yield from self._uses(info, ids, history)
        for edge in self.there.keys() - self._wanted:
            name = self.name(edge)
            tells = self._judged.get(edge[2] if name in INTO_CALLS else edge[0])
            if tells and name in FOLLOW:
                yield nodes.finding("corrupted", f"an edge {name} unlike {tells}", edge=edge)

    def lost_calls(self) -> Iterator[Finding]:
        """Calls that edges or what others go on from tell of, then those only counted."""
        nodes = self._nodes
        for told in sorted(self._calls.get(call, "a model call") for call in self._lost):
            yield nodes.finding("missing", told)
        if nodes.session not in nodes.found:
            return
        try:
            counted = total_of(nodes.found[nodes.session].get("usage_totals", ())).calls
        except (ValueError, TypeError):
            return
        at_nodes = sum(int(fields.get("times_counted", 0)) for fields in nodes.found.values())
        # A call that is lost or unreadable may have been counted any number of times.
        if counted != at_nodes and not self._lost and not nodes.unread:
            told = f"the session's sums count {counted} model calls, its nodes {at_nodes}"
            yield nodes.finding("missing" if counted > at_nodes else "corrupted", told)

    def _lacking(self, edges: Sequence[Edge], where: str) -> Iterator[Finding]:
        """Those that are not there, though their ends are."""
        for edge in edges:
            ends = {edge[0], edge[2]} - {self._nodes.owner}
            if edge not in self.there and ends <= self._nodes.found.keys():
                fields = self._nodes.found[edge[2]]
                to = f"event {fields.get('number')} of " if "position" in fields else ""
                told = f"the edge {self.name(edge)} to {to}{where}"
                yield self._nodes.finding("missing", told, edge=edge)

    def _order(self, info: BranchInfo, ids: Sequence[UUID], history: History) -> list[Edge]:
        """What joins a branch's own events, and what its next call goes on from."""
        branch = branch_id(self._nodes.session, info.number)
        first, results = info.fork_events, history.results
        found = [self._edge(branch, "HasFirstEvent", id) for id in ids[first : first + 1]]
        later = range(max(first, 1), info.events)
        found += [self._edge(ids[event - 1], "Next", ids[event]) for event in later]
        for event, call in zip(results.event, results.call_event, strict=True):
            if event >= first and call != NO_CALL:
                found.append(self._edge(ids[call], "HasResult", ids[event]))
        return found

    def _view(self, info: BranchInfo, ids: Sequence[UUID], history: History) -> Iterator[Finding]:
        """The edges of a branch's calls."""
        nodes = self._nodes
        session, found = nodes.session, nodes.found
        wanted: list[Edge] = []
        for id, messages, again in _call_places(session, info, history):
            self._calls[id] = f"the model call with {messages} messages of branch {info.number}"
            answered = not again and history.roles[messages : messages + 1] == ["assistant"]
            fact = _fact_in(found.get(id))
            if fact is None or messages == len(history) < info.messages:
                continue
            self._judged[id] = f"what {self._calls[id]} tells"
            if answered:
                answer = ids[history.events_before(messages)]
                wanted.append(self._edge(id, "AnsweredBy", answer))
            else:
                branch = branch_id(session, info.number)
                wanted.append(self._edge(branch, "AwaitsAnswer", id))
            earlier = earlier_call_ids(
                session, nodes.known_branches, info.number, history, messages
            )
            absent = self._lost | nodes.unread
            last = next((one for one in earlier if one in absent or _fact_in(found.get(one))), None)
            follows_lost = last in absent
            if follows_lost:
                self._wanted |= self._into[id]
            elif last is not None:
                wanted.append(self._edge(last, "NextCall", id))
            for kinds, count, what in (
                (KINDS, found[id].get("edges", -1), "showed"),
                (("Misses",), found[id].get("missing", 0), "lacked"),
            ):
                edges = {edge for edge in self._from[id] if self.name(edge) in kinds}
                self._wanted |= edges
                if 0 <= count != len(edges):
                    lost = f"{count - len(edges)} edges of what {self._calls[id]} {what}"
                    yield nodes.finding("missing", lost, node=id)
        self._wanted |= set(wanted)
        yield from self._lacking(wanted, f"branch {info.number}")

    def _uses(self, info: BranchInfo, ids: Sequence[UUID], history: History) -> Iterator[Finding]:
        """What a branch's operations drew on, by its texts, against the edges that say so."""
        drawn = {
            self._edge(ids[use.operation], "Reuse", ids[history.results.event[use.result]]): use
            for use in history.reuse.uses
            if use.operation >= info.fork_events
        }
        for edge, use in drawn.items():
            if edge in self.there and _values(self.there[edge]) == set(use.values):
                continue
            told = f"an edge Reuse from event {use.operation} of branch {info.number}"
            row = rows.pack(rows.encode({"values": list(use.values)}))
            kind: Kind = "corrupted" if edge in self.there else "missing"
            yield self._nodes.finding(kind, told, edge=edge, row=row)
        self._wanted |= drawn.keys()
        for id in ids[info.fork_events : self._nodes.sound[info.number]]:
            self._judged[id] = f"the texts of branch {info.number}"

    def _history(self, info: BranchInfo, ids: Sequence[UUID]) -> History:
        """A branch's line as far as it is whole, traced anew."""
        history = History()
        sound = self._nodes.sound[info.number]
        append_stored(history, (self._nodes.found[id] for id in ids[:sound]), "")
        return history

    def _edge(self, source: UUID, name: str, target: UUID) -> Edge:
        return source, self._nodes.store.kinds.number("nodes.edges", name), target


def _damage(data: bytes | None) -> str:
    """Why an edge's row cannot be read."""
    try:
        if data is not None:
            rows.read(data)[1:]
    except ValueError as damage:
        return str(damage)
    return ""


def _values(data: bytes | None) -> set[str] | None:
    try:
        return set(rows.read(data or b"")[1]["values"])
    except (ValueError, KeyError, TypeError):
        return None


def _call_places(
    session: UUID, info: BranchInfo, history: History
) -> Iterator[tuple[UUID, int, bool]]:
    """The ids that calls of a branch may have, how many messages each had, and whether the branch
    had gone on already."""
    for messages in range(info.fork_messages, len(history) + 1):
        events = history.events_before(messages)
        for again in (False, True):
            yield call_id(session, info.number, events, again), messages, again


def _fact_in(fields: Mapping[str, Any] | None) -> CallRecord | None:
    """What a call's node tells; None where it does not."""
    try:
        return CallRecord.from_json(fields) if fields else None
    except (KeyError, TypeError, ValueError):
        return None

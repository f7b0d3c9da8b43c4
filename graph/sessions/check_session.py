"""One session's rows against what its numbers, digests and texts say must be there."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from engine.history.branches import ROOT, BranchInfo
from engine.history.history import NO_CALL, History
from engine.history.stored import append_stored, is_event, is_intact
from graph.sessions.findings import Finding
from graph.sessions.ids import branch_id, event_id, event_ids, removal_id
from graph.sessions.session_nodes import branch_ids, known, nodes_of
from graph.store import rows
from graph.store.base import Store

Unreadable = Callable[[tuple[str, str], bytes], str]
"""Why a stored row is none of the type of that name to this program; empty where it is."""
Fields = Mapping[str, Any]
Edge = tuple[UUID, int, UUID]


def check_session(
    store: Store,
    owner: UUID,
    session: UUID,
    unreadable: Unreadable,
    belong: set[UUID] | None = None,
) -> Iterator[Finding]:
    """What is wrong with it; its nodes come first. `belong` are its nodes, where they are known."""
    if known(store, owner, [removal_id(session)]):
        return  # it is being deleted: whoever comes next goes on (graph.removal)
    check = _Check(store, owner, session, unreadable, belong or nodes_of(store, owner, session))
    yield from check.nodes()
    yield from check.edges()


class _Check:
    def __init__(
        self, store: Store, owner: UUID, session: UUID, unreadable: Unreadable, belong: set[UUID]
    ) -> None:
        self._store, self._owner, self._session = store, owner, session
        self._unreadable_as, self._belong = unreadable, belong
        self._name = str(session)
        self._found: dict[UUID, Fields] = {}
        self._branches: list[BranchInfo | None] = []
        self._sound: list[int] = []
        """Of each branch, the number of events of its line before the first that is not whole."""

    def nodes(self) -> Iterator[Finding]:
        """Nodes that cannot be read; branches and events that are lost or changed."""
        yield from self._unreadable()
        node = self._found.get(self._session, {})
        self._name = str(node.get("key", self._session))
        ids = branch_ids(self._store, self._owner, self._session)
        if ids and not node:
            yield self._finding("lost", f"the node of session {self._session}")
        said = node.get("branches", 0)
        for number in range(max(len(ids), said if isinstance(said, int) else 0)):
            info = _info(self._found.get(branch_id(self._session, number), {}), number)
            self._branches.append(info)
            if info is None:
                yield self._finding("lost", f"branch {number}")
                self._sound.append(0)
            else:
                yield from self._events(info)

    def edges(self) -> Iterator[Finding]:
        """Edges that are lost or unreadable, and those that texts tell otherwise. After `nodes`."""
        there: dict[Edge, bytes | None] = {
            (source, kind, target): data
            for source, kind, target, data in self._store.edges(self._owner, self._belong)
        }
        for edge, told in self._expected():
            ends = {edge[0], edge[2]} - {self._owner}
            if edge not in there and ends <= self._found.keys():
                yield self._finding("lost", told, edge=edge)
        told_of: set[Edge | None] = set()
        for number, info in enumerate(self._branches):
            for finding in self._uses(info, self._sound[number], there) if info else ():
                told_of.add(finding.edge)
                yield finding
        for edge, data in there.items():
            if edge not in told_of and (damage := _damage(data)):
                told = f"an edge {self._store.kinds.name(edge[1])[1]}: {damage}"
                yield self._finding("unreadable", told, edge=edge)

    def _unreadable(self) -> Iterator[Finding]:
        for id, _, kind, data in self._store.nodes(self._owner, self._belong):
            name = self._store.kinds.name(kind)
            if why := self._unreadable_as(name, data):
                yield self._finding("unreadable", f"{'.'.join(name)} {id}: {why}", node=id)
            else:
                self._found[id] = rows.parse(rows.unpack(data))[0]

    def _events(self, info: BranchInfo) -> Iterator[Finding]:
        """A branch's own events, one by one, and each message against its digest."""
        before = self._digest_before(info)
        sound, message = self._sound_before(info), list[Fields]()
        for event in range(info.fork_events, info.events + 1):
            id = event_id(self._session, info.number, event)
            fields = self._found.get(id) if event < info.events else None
            whole = fields is not None and is_event(fields, event)
            if message and (not whole or fields["position"] != message[0]["position"]):  # type: ignore[index]
                start = event - len(message)
                if before is not None and not is_intact(message, before):
                    told = f"message {message[0]['position']} of branch {info.number}"
                    ends = whole or event == info.events
                    yield self._finding("changed" if ends else "lost", told)
                    sound = min(sound, start)
                before = message[0]["digest"]
                message = []
            if whole:
                assert fields is not None
                message.append(fields)
            elif event < info.events:
                yield self._finding("lost", f"event {event} of branch {info.number}")
                before = None
                sound = min(sound, event)
        self._sound.append(min(sound, info.events))

    def _expected(self) -> Iterator[tuple[Edge, str]]:
        """The edges that nodes' numbers say there are, and what is told of each."""
        yield self._edge(self._owner, "Owns", self._session), "the edge Owns to the session"
        for number, info in enumerate(self._branches):
            branch = branch_id(self._session, number)
            told = f"the edge HasBranch to branch {number}"
            yield self._edge(self._session, "HasBranch", branch), told
            if info is None or (ids := self._line(info)) is None:
                continue
            if info.fork_events < info.events:
                told = f"the edge Begins of branch {number}"
                yield self._edge(branch, "Begins", ids[info.fork_events]), told
            for event in range(max(info.fork_events, 1), info.events):
                told = f"the edge Next to event {event} of branch {number}"
                yield self._edge(ids[event - 1], "Next", ids[event]), told
            results = self._history(info, ids).results
            for event, call in zip(results.event, results.call_event, strict=True):
                if event >= info.fork_events and call != NO_CALL:
                    told = f"the edge Returned to event {event} of branch {number}"
                    yield self._edge(ids[call], "Returned", ids[event]), told

    def _uses(
        self, info: BranchInfo, sound: int, there: Mapping[Edge, bytes | None]
    ) -> Iterator[Finding]:
        """What a branch's operations drew on, by its texts, against the edges that say so."""
        if (ids := self._line(info)) is None:
            return
        history = self._history(info, ids)
        drawn = {
            self._edge(ids[use.operation], "Reuse", ids[history.results.event[use.result]]): use
            for use in history.reuse.uses
            if use.operation >= info.fork_events
        }
        for edge, use in drawn.items():
            if edge in there and _values(there[edge]) == set(use.values):
                continue
            told = f"an edge Reuse from event {use.operation} of branch {info.number}"
            row = rows.pack(rows.encode({"values": list(use.values)}))
            kind = "changed" if edge in there else "lost"
            yield self._finding(kind, told, edge=edge, row=row)
        own = set(ids[info.fork_events : sound])
        for edge in there:
            if edge[0] in own and edge not in drawn and self._is_reuse(edge):
                told = f"an edge Reuse in branch {info.number} that its texts do not give"
                yield self._finding("changed", told, edge=edge)

    def _history(self, info: BranchInfo, ids: Sequence[UUID]) -> History:
        """A branch's line as far as it is whole, traced anew."""
        history = History()
        sound = self._sound[info.number]
        append_stored(history, (self._found[id] for id in ids[:sound]), "")
        return history

    def _line(self, info: BranchInfo) -> list[UUID] | None:
        """The ids of all events of a branch's line; None where a branch that it goes on from is
        lost."""
        number = info.parent
        while number != ROOT:
            if not 0 <= number < len(self._branches) or self._branches[number] is None:
                return None
            number = self._branches[number].parent  # type: ignore[union-attr]
        known = [one or BranchInfo(place) for place, one in enumerate(self._branches)]
        return event_ids(self._session, known, info.number, 0, info.events)

    def _sound_before(self, info: BranchInfo) -> int:
        """As many events as a line may be whole, by what its parent's is."""
        if not 0 <= info.parent < len(self._sound):
            return info.events
        shared = self._sound[info.parent]
        return shared if shared < info.fork_events else info.events

    def _digest_before(self, info: BranchInfo) -> str | None:
        """The digest of what comes before a branch's own events; None where it cannot be told."""
        if info.fork_events == 0:
            return ""
        ids = self._line(info)
        last = self._found.get(ids[info.fork_events - 1]) if ids else None
        return last.get("digest") if last else None

    def _edge(self, source: UUID, name: str, target: UUID) -> Edge:
        return source, self._store.kinds.number("nodes.edges", name), target

    def _is_reuse(self, edge: Edge) -> bool:
        return self._store.kinds.name(edge[1])[1] == "Reuse"

    def _finding(self, kind: Any, told: str, **more: Any) -> Finding:
        return Finding(kind, told, self._owner, self._name, **more)


def _info(fields: Fields, number: int) -> BranchInfo | None:
    """A branch as its node tells; None where it does not."""
    try:
        return BranchInfo.from_fields(fields) if fields.get("number") == number else None
    except KeyError:
        return None


def _damage(data: bytes | None) -> str:
    """Why an edge's row cannot be read."""
    try:
        if data is not None:
            rows.parse(rows.unpack(data))
    except ValueError as damage:
        return str(damage)
    return ""


def _values(data: bytes | None) -> set[str] | None:
    try:
        fields = rows.parse(rows.unpack(data or b""))[0]
        return set(fields["values"])
    except (ValueError, KeyError, TypeError):
        return None

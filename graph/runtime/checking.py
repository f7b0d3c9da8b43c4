"""What a store holds against what it should hold: lost and unreadable rows, loose ends, orphans.

Rows alone are looked at, no nodes are built: it works where walking does not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

from engine.history.branches import ROOT
from engine.history.stored import is_event, is_intact
from graph.runtime import rows
from graph.runtime.belongings import belongings, branch_ids, known, left_by
from graph.runtime.identity import event_id, removal_id
from graph.runtime.quarantine import put_aside
from graph.runtime.statements import PART
from graph.runtime.store import Store

Kind = Literal["unreadable", "lost", "changed", "loose", "orphan"]
Fields = Mapping[str, Any]
LEAD_BACK: Final = frozenset({"Owns", "HasBranch", "Begins"})
"""Edges by which what is lost at one end is rebuilt when it is next used."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; `edge` is its row where that is an edge."""

    kind: Kind
    told: str
    owner: UUID
    node: UUID | None = None
    edge: tuple[UUID, int, UUID] | None = None


def check_store(store: Store) -> Iterator[Finding]:
    """Everything that is wrong, one user's graph after another."""
    owners = store.read("SELECT owner FROM nodes UNION SELECT owner FROM edges")
    for (owner,) in owners:
        yield from check_owner(store, store.uuid(owner))


def check_owner(store: Store, owner: UUID) -> Iterator[Finding]:
    """Everything that is wrong with one user's graph."""
    kinds = {
        store.uuid(id): store.kinds.name(kind)[1]
        for id, kind in store.read("SELECT id, kind FROM nodes WHERE owner = ?", (owner,))
    }
    sessions = {id for id, kind in kinds.items() if kind == "Session"}
    loose = []
    aside = {id for (id,) in store.read("SELECT id FROM quarantine WHERE owner = ?", (owner,))}
    query = "SELECT source, kind, target FROM edges WHERE owner = ?"
    for source, number, target in store.read(query, (owner,)):
        ends = store.uuid(source), store.uuid(target)
        name = store.kinds.name(number)[1]
        if name == "HasBranch":
            sessions.add(ends[0])
        if any(end not in kinds and end != owner and str(end) not in aside for end in ends):
            loose.append(((ends[0], number, ends[1]), name))
    removals = {id for id, kind in kinds.items() if kind == "Removal"}
    theirs = {owner, *removals}.union(*(left_by(store, owner, one) for one in removals))
    for session in sorted(sessions):
        belong = belongings(store, owner, session)
        theirs |= belong
        yield from check_session(store, owner, session, belong)
    for edge, name in loose:
        yield Finding("loose", f"an edge {name} lacks an end", owner, edge=edge)
    for id in kinds.keys() - theirs:
        yield Finding("orphan", f"{kinds[id]} {id} belongs to no session", owner, node=id)


def check_session(
    store: Store, owner: UUID, session: UUID, belong: set[UUID] | None = None
) -> Iterator[Finding]:
    """What is wrong with one session's nodes."""
    if known(store, owner, [removal_id(session)]):
        return  # it is being deleted: whoever comes next goes on (graph.removal)
    belong = belong or belongings(store, owner, session)
    found: dict[UUID, Fields] = {}
    for id, _, kind, data in store.nodes(owner, belong):
        try:
            found[id] = rows.parse(rows.unpack(data))[0]
        except ValueError as damage:
            name = store.kinds.name(kind)[1]
            yield Finding("unreadable", f"{name} {id} of session {session}: {damage}", owner, id)
    for source, kind, target, fields in store.edges(owner, belong):
        try:
            if fields is not None:
                rows.parse(rows.unpack(fields))
        except ValueError as damage:
            name = store.kinds.name(kind)[1]
            yield Finding(
                "unreadable",
                f"an edge {name} of session {session}: {damage}",
                owner,
                edge=(source, kind, target),
            )
    branches = branch_ids(store, owner, session)
    name = str(found.get(session, {}).get("key", session))
    if session not in found and branches:
        yield Finding("lost", f"the node of session {session}", owner)
    for number, id in enumerate(branches):
        if not _is_branch(found.get(id, {}), number):
            yield Finding("lost", f"branch {number} of session {name!r}", owner)
        else:
            yield from _check_line(
                owner, session, name, [found.get(one, {}) for one in branches], number, found
            )


def repair(store: Store, finding: Finding) -> bool:
    """Puts aside what cannot be read or belongs to nothing, and removes edges that lead nowhere.

    Whether that was possible: what is lost stays lost, and the session goes on without it.
    """
    if finding.kind in ("unreadable", "orphan") and finding.node is not None:
        put_aside(store, finding.owner, finding.node, finding.told)
        return True
    if finding.edge is not None and finding.kind == "loose":
        source, kind, target = finding.edge
        if store.kinds.name(kind)[1] in LEAD_BACK:
            return False
        with store.transaction() as cursor:
            cursor.execute(store.query(PART), store.row((finding.owner, source, kind, target)))
        return True
    return False


def _is_branch(fields: Fields, number: int) -> bool:
    return fields.get("number") == number and "fork_events" in fields


def _check_line(
    owner: UUID,
    session: UUID,
    name: str,
    branches: list[Fields],
    number: int,
    found: Mapping[UUID, Fields],
) -> Iterator[Finding]:
    """A branch's own events, one by one, and each message against its digest."""
    branch = branches[number]
    first, stop = branch["fork_events"], branch["events"]
    before = _digest_before(session, branches, number, first, found)
    message: list[Fields] = []
    for event in range(first, stop + 1):
        fields = found.get(event_id(session, number, event)) if event < stop else None
        whole = fields is not None and is_event(fields, event)
        if message and (not whole or fields["position"] != message[0]["position"]):  # type: ignore[index]
            if before is not None and not is_intact(message, before):
                told = f"message {message[0]['position']} of branch {number} of session {name!r}"
                yield Finding("changed" if whole or event == stop else "lost", told, owner)
            before = message[0]["digest"]
            message = []
        if whole:
            assert fields is not None
            message.append(fields)
        elif event < stop:
            yield Finding("lost", f"event {event} of branch {number} of session {name!r}", owner)
            before = None


def _digest_before(
    session: UUID, branches: list[Fields], number: int, event: int, found: Mapping[UUID, Fields]
) -> str | None:
    """The digest of what comes before an event of a line; None where it cannot be told."""
    if event == 0:
        return ""
    while number != ROOT and branches[number].get("fork_events", 0) >= event:
        number = branches[number].get("parent", ROOT)
    return found.get(event_id(session, number, event - 1), {}).get("digest")

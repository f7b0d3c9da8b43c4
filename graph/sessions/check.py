"""Compares a store with what it should hold: lost and unreadable rows, loose edges, orphans.

Rows alone are looked at, no nodes are built: it works where walking does not.
"""

from collections.abc import Iterator
from uuid import UUID

from graph.sessions.check_session import Unreadable, check_session
from graph.sessions.findings import Finding
from graph.sessions.session_nodes import left_by, nodes_of
from graph.store.base import Store


def check_store(store: Store, unreadable: Unreadable) -> Iterator[Finding]:
    """Everything that is wrong, one user's graph after another. `unreadable` tells why
    the program cannot read a row."""
    owners = store.read("SELECT owner FROM nodes UNION SELECT owner FROM edges")
    for (owner,) in owners:
        yield from check_owner(store, store.uuid(owner), unreadable)


def check_owner(store: Store, owner: UUID, unreadable: Unreadable) -> Iterator[Finding]:
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
        belong = nodes_of(store, owner, session)
        theirs |= belong
        yield from check_session(store, owner, session, unreadable, belong)
    for edge, name in loose:
        yield Finding("loose", f"an edge {name} lacks an end", owner, edge=edge)
    for id in kinds.keys() - theirs:
        yield Finding("orphan", f"{kinds[id]} {id} belongs to no session", owner, node=id)

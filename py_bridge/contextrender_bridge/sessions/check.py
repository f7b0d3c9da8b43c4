"""Compares a store with what it should hold: lost and unreadable rows, loose edges, orphans.

Rows alone are looked at, no nodes are built: it works where walking does not.
"""

from collections.abc import Iterator
from uuid import UUID

from contextrender_bridge.sessions.check_edges import check_edges
from contextrender_bridge.sessions.check_nodes import NodeCheck, Unreadable
from contextrender_bridge.sessions.findings import Edge, Finding
from contextrender_bridge.sessions.ids import removal_id
from contextrender_bridge.sessions.session_nodes import known, left_by, nodes_of
from contextrender_bridge.store.base import Store


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
    loose: list[tuple[Edge, str]] = []
    aside = {
        UUID(id) for (id,) in store.read("SELECT id FROM quarantine WHERE owner = ?", (owner,))
    }
    there = {owner, *kinds, *aside}
    query = "SELECT source, kind, target FROM edges WHERE owner = ?"
    for source, number, target in store.read(query, (owner,)):
        ends = store.uuid(source), store.uuid(target)
        name = store.kinds.name(number)[1]
        if name == "HasBranch":
            sessions.add(ends[0])
        if not there.issuperset(ends):
            loose.append(((ends[0], number, ends[1]), name))
    removals = {id for id, kind in kinds.items() if kind == "PendingDeletion"}
    theirs = {owner, *removals}.union(*(left_by(store, owner, one) for one in removals))
    for session in sorted(sessions):
        theirs |= nodes_of(store, owner, session)
        if found := list(check_session(store, owner, session, unreadable)):
            # It may be written to meanwhile: what is wrong is so when it is looked at again.
            again = set(check_session(store, owner, session, unreadable))
            yield from (one for one in found if one in again)
    there |= known(store, owner, {end for edge, _ in loose for end in (edge[0], edge[2])})
    for edge, name in loose:
        if not there.issuperset((edge[0], edge[2])):
            yield Finding("dangling", f"an edge {name} lacks an end", owner, edge=edge)
    for id in kinds.keys() - theirs:
        yield Finding("orphan", f"{kinds[id]} {id} belongs to no session", owner, node=id)


def check_session(
    store: Store, owner: UUID, session: UUID, unreadable: Unreadable
) -> Iterator[Finding]:
    """What is wrong with it; its nodes come first."""
    if known(store, owner, [removal_id(session)]):
        return  # it is being deleted: whoever comes next goes on (graph.removal)
    nodes = NodeCheck(store, owner, session, unreadable, nodes_of(store, owner, session))
    yield from nodes.findings()
    yield from check_edges(nodes)

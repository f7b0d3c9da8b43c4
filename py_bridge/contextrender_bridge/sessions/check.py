"""The check of a store: missing, unreadable and corrupted rows, dangling edges, orphans.

It reads rows and builds no nodes, so it works even on a graph that walkers cannot read.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from uuid import UUID

from contextrender_bridge.sessions.check_edges import check_edges
from contextrender_bridge.sessions.check_nodes import NodeCheck, ReadProblem
from contextrender_bridge.sessions.findings import NO_OWNER, Edge, StoreFinding
from contextrender_bridge.sessions.ids import removal_id
from contextrender_bridge.sessions.session_nodes import existing_ids, nodes_of, undeleted_nodes
from contextrender_bridge.store.base import InvalidId, Store
from contextrender_bridge.store.writes import StoreDamaged


def check_store(store: Store, read_problem: ReadProblem) -> Iterator[StoreFinding]:
    """Yield the damage of the database's file, then the findings in each user's graph.

    `read_problem` returns why the program cannot read a row; empty if it can.
    """
    for message in store.file_damage():
        yield StoreFinding("damaged file", message, NO_OWNER)
    try:
        owners = store.read("SELECT owner FROM nodes UNION SELECT owner FROM edges")
    except StoreDamaged:
        yield StoreFinding("damaged file", "no user's rows can be read", NO_OWNER)
        return
    for (owner,) in owners:
        try:
            yield from check_owner(store, store.uuid(owner), read_problem)
        except StoreDamaged:
            yield StoreFinding("damaged file", "some rows of a user cannot be read", NO_OWNER)


def check_owner(store: Store, owner: UUID, read_problem: ReadProblem) -> Iterator[StoreFinding]:
    """Yield the findings in one user's graph: session by session, then dangling edges and orphans.

    A dangling edge has no node at one of its ends. An orphan is a node that belongs to no session
    and to no unfinished deletion.
    """
    # Read the type of each node, and find the sessions, also sessions whose own node is missing.
    type_names = {
        store.uuid(id): store.kinds.name(kind)[1]
        for id, kind in store.read("SELECT id, kind FROM nodes WHERE owner = ?", (owner,))
    }
    quarantine = store.read("SELECT id FROM quarantine WHERE owner = ?", (owner,))
    existing = {owner, *type_names, *_text_ids(quarantine)}
    dangling, sessions = _dangling_edges_and_sessions(store, owner, existing)
    sessions |= {id for id, name in type_names.items() if name == "Session"}
    # An edge whose row is damaged may have an invalid id at an end, which is no session.
    sessions = {id for id in sessions if not isinstance(id, InvalidId)}
    # Check each session, and collect the nodes that belong to sessions and deletions.
    deletions = {id for id, name in type_names.items() if name == "PendingDeletion"}
    members = {owner, *deletions}  # the nodes that are no orphans
    for deletion in deletions:
        members |= undeleted_nodes(store, owner, deletion)
    for session in sorted(sessions):
        members |= nodes_of(store, owner, session)
        yield from _confirmed_findings(store, owner, session, read_problem)
    # Another request may have written an end of an edge since the nodes were read, so look again.
    ends = {source for source, _, _ in dangling} | {target for _, _, target in dangling}
    existing |= existing_ids(store, owner, ends)
    for edge in dangling:
        source, kind, target = edge
        if not existing.issuperset((source, target)):
            message = f"an edge {store.kinds.name(kind)[1]} lacks an end"
            yield StoreFinding("dangling", message, owner, edge=edge)
    for id in type_names.keys() - members:
        message = f"{type_names[id]} {id} belongs to no session"
        yield StoreFinding("orphan", message, owner, node=id)


def _dangling_edges_and_sessions(
    store: Store, owner: UUID, existing: set[UUID]
) -> tuple[list[Edge], set[UUID]]:
    """Return a user's edges of which an end is not in `existing`, and the ids of its sessions.

    Sessions are found by their edges to branches, because the node of a session may be missing.
    """
    dangling: list[Edge] = []
    sessions: set[UUID] = set()
    query = "SELECT source, kind, target FROM edges WHERE owner = ?"
    for source_id, kind, target_id in store.read(query, (owner,)):
        source, target = store.uuid(source_id), store.uuid(target_id)
        if store.kinds.name(kind)[1] == "HasBranch":
            sessions.add(source)
        if not existing.issuperset((source, target)):
            dangling.append((source, kind, target))
    return dangling, sessions


def _text_ids(rows: Iterable[tuple[str]]) -> Iterator[UUID]:
    """Yield the ids in rows of one text each; skip texts that are no ids."""
    for (text,) in rows:
        with suppress(ValueError, TypeError, AttributeError):
            yield UUID(text)


def _confirmed_findings(
    store: Store, owner: UUID, session: UUID, read_problem: ReadProblem
) -> Iterator[StoreFinding]:
    """Check a session, and yield only the findings that a second check repeats.

    A request that writes during the first check may cause false findings. They are not repeated.
    """
    if findings := list(check_session(store, owner, session, read_problem)):
        repeated = set(check_session(store, owner, session, read_problem))
        yield from (finding for finding in findings if finding in repeated)


def check_session(
    store: Store, owner: UUID, session: UUID, read_problem: ReadProblem
) -> Iterator[StoreFinding]:
    """Yield the findings in a session: in its nodes, then in its edges.

    Yield none for a session whose deletion is not finished.
    """
    if existing_ids(store, owner, [removal_id(session)]):
        return  # A later request finishes its deletion (graph.session_deletion).
    nodes = NodeCheck(store, owner, session, read_problem, nodes_of(store, owner, session))
    yield from nodes.findings()
    yield from check_edges(nodes)

"""The check of a store: missing, unreadable and corrupted rows, dangling edges, orphans.

It reads rows and builds no nodes, so that it works on a graph that no walker can read.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from uuid import UUID

from contextrender_bridge.sessions.check_edges import check_edges
from contextrender_bridge.sessions.check_nodes import NodeCheck, ReadProblem
from contextrender_bridge.sessions.findings import NO_OWNER, Edge, StoreFinding
from contextrender_bridge.sessions.ids import removal_id
from contextrender_bridge.sessions.session_nodes import existing_ids, nodes_of, undeleted_nodes
from contextrender_bridge.store.base import Store
from contextrender_bridge.store.writes import StoreDamaged


def check_store(store: Store, read_problem: ReadProblem) -> Iterator[StoreFinding]:
    """Yield the damage of the database's file, then the findings in each user's graph.

    `read_problem` returns why the program cannot read a row.
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
    """Yield the findings in one user's graph: by session, then dangling edges and orphans."""
    kinds = {
        store.uuid(id): store.kinds.name(kind)[1]
        for id, kind in store.read("SELECT id, kind FROM nodes WHERE owner = ?", (owner,))
    }
    sessions = {id for id, kind in kinds.items() if kind == "Session"}
    quarantine = store.read("SELECT id FROM quarantine WHERE owner = ?", (owner,))
    existing = {owner, *kinds, *_text_ids(quarantine)}
    dangling: list[tuple[Edge, str]] = []
    query = "SELECT source, kind, target FROM edges WHERE owner = ?"
    for source, number, target in store.read(query, (owner,)):
        ends = store.uuid(source), store.uuid(target)
        name = store.kinds.name(number)[1]
        if name == "HasBranch":
            sessions.add(ends[0])
        if not existing.issuperset(ends):
            dangling.append(((ends[0], number, ends[1]), name))
    deletions = {id for id, kind in kinds.items() if kind == "PendingDeletion"}
    members = {owner, *deletions}.union(*(undeleted_nodes(store, owner, id) for id in deletions))
    for session in sorted(sessions):
        members |= nodes_of(store, owner, session)
        yield from _confirmed_findings(store, owner, session, read_problem)
    # A node may have been written since the nodes were read.
    existing |= existing_ids(
        store, owner, {end for edge, _ in dangling for end in (edge[0], edge[2])}
    )
    for edge, name in dangling:
        if not existing.issuperset((edge[0], edge[2])):
            yield StoreFinding("dangling", f"an edge {name} lacks an end", owner, edge=edge)
    for id in kinds.keys() - members:
        yield StoreFinding("orphan", f"{kinds[id]} {id} belongs to no session", owner, node=id)


def _text_ids(rows: Iterable[tuple[str]]) -> Iterator[UUID]:
    """Yield the ids that rows have as text."""
    for (text,) in rows:
        with suppress(ValueError, TypeError, AttributeError):
            yield UUID(text)


def _confirmed_findings(
    store: Store, owner: UUID, session: UUID, read_problem: ReadProblem
) -> Iterator[StoreFinding]:
    """Yield the findings that a second check repeats: a request may write during the first."""
    if findings := list(check_session(store, owner, session, read_problem)):
        repeated = set(check_session(store, owner, session, read_problem))
        yield from (finding for finding in findings if finding in repeated)


def check_session(
    store: Store, owner: UUID, session: UUID, read_problem: ReadProblem
) -> Iterator[StoreFinding]:
    """Yield the findings in a session: in its nodes, then in its edges."""
    if existing_ids(store, owner, [removal_id(session)]):
        return  # A later request finishes its deletion (graph.session_deletion).
    nodes = NodeCheck(store, owner, session, read_problem, nodes_of(store, owner, session))
    yield from nodes.findings()
    yield from check_edges(nodes)

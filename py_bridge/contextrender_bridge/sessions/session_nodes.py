"""The ids of all nodes of one session, even if some of its rows are missing or unreadable.

The ids of a session's branches, events and calls begin with the same bytes. Its other nodes are
found by following edges.
"""

from collections.abc import Iterable
from uuid import UUID

from contextrender_bridge.sessions.ids import (
    IdKind,
    ids_of_session,
    place_of_id,
    session_id_of,
)
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import InvalidId, Store


def nodes_of(store: Store, owner: UUID, session: UUID) -> set[UUID]:
    """Return the ids of a session's nodes, including missing nodes to which edges lead.

    Begin with the nodes whose ids are in the session's range of ids. Follow the edges of all nodes
    found until there is no new node.
    """
    ids = {session, *store.ids_between(owner, *ids_of_session(session))}
    new_ids = ids  # nodes whose edges were not followed yet
    while new_ids:
        ends: set[UUID] = set()
        for source, _, target, _ in store.edges(owner, new_ids):
            ends |= {source, target}
        # The edges of the owner's root lead to all sessions, and so may those of an invalid id.
        new_ids = {id for id in ends - ids - {owner} if not isinstance(id, InvalidId)}
        ids |= new_ids
    return ids


def undeleted_nodes(store: Store, owner: UUID, removal: UUID) -> set[UUID]:
    """Return the ids of the nodes that may remain of a session whose deletion is not finished.

    `removal` is the id of the deletion's node. Return an empty set if that is missing or cannot be
    read.
    """
    try:
        ((_, _, _, data),) = store.nodes(owner, [removal])
        fields = rows.read_fields(data)
        link_ids = {UUID(id) for id in fields["link_ids"]}
        session = session_id_of(owner, fields["key"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return set()
    parts = store.ids_between(owner, *ids_of_session(session))
    # Result summaries have ids of their own. Their edges `StandsFor` lead to results.
    stands_for = store.kinds.number("nodes.edges", "StandsFor")
    return {*parts, *link_ids, *store.sources(owner, parts, stands_for)}


def count_branches(ids: Iterable[UUID]) -> int:
    """Return the minimum number of branches of a session whose nodes have these ids.

    It is one more than the largest branch number in the ids of branches and events.
    """
    places = [place_of_id(id) for id in ids]
    branches = (branch for branch, _, kind in places if kind in (IdKind.BRANCH, IdKind.EVENT))
    return max(branches, default=-1) + 1


def existing_ids(store: Store, owner: UUID, ids: Iterable[UUID]) -> set[UUID]:
    """Return the ids that have a row in the store."""
    return {id for id, _ in store.sizes(owner, ids)}

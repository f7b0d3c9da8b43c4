"""Every row of one session, found whether or not some of its rows are lost or damaged.

A session's branches, events and calls share the beginning of their ids; edges lead to the rest.
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
from contextrender_bridge.store.base import Store


def nodes_of(store: Store, owner: UUID, session: UUID) -> set[UUID]:
    """Return the ids of a session's nodes. Some of those that edges name may be missing."""
    found = {session, *store.ids_between(owner, *ids_of_session(session))}
    fresh = found
    while fresh:
        ends: set[UUID] = set()
        for source, _, target, _ in store.edges(owner, fresh):
            ends |= {source, target}
        fresh = ends - found - {owner}
        found |= fresh
    return found


def left_by(store: Store, owner: UUID, removal: UUID) -> set[UUID]:
    """Return the ids of what a session that is being deleted may have left; none if its removal
    cannot be read."""
    for _, _, _, data in store.nodes(owner, [removal]):
        try:
            fields = rows.read(data)[1]
            others = {UUID(id) for id in fields["other_ids"]}
            session = session_id_of(owner, fields["key"])
        except (ValueError, KeyError, TypeError, AttributeError):
            break
        parts = store.ids_between(owner, *ids_of_session(session))
        stands_for = store.kinds.number("nodes.edges", "StandsFor")
        return {*parts, *others, *store.sources(owner, parts, stands_for)}
    return set()


def count_branches(ids: Iterable[UUID]) -> int:
    """Return how many branches a session with nodes of these ids has at least."""
    places = [place_of_id(id) for id in ids]
    branches = (branch for branch, _, kind in places if kind in (IdKind.BRANCH, IdKind.EVENT))
    return max(branches, default=-1) + 1


def known(store: Store, owner: UUID, ids: Iterable[UUID]) -> set[UUID]:
    """Those that have a row."""
    return {id for id, _ in store.sizes(owner, ids)}

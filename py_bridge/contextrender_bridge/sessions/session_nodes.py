"""Every row of one session, found whether or not some of its rows are lost or damaged.

By ids, which follow from numbers (graph.sessions.ids), and by edges from there: what one way
misses, the other finds.
"""

from collections.abc import Iterable
from uuid import UUID

from contextrender_bridge.sessions.ids import (
    branch_id,
    call_id,
    event_id,
    own_event_ids,
    session_id_of,
)
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import Store

BRANCHES_AT_ONCE = 64


def nodes_of(store: Store, owner: UUID, session: UUID) -> set[UUID]:
    """The ids of a session's nodes, some of which may not be there."""
    found = {session}
    for number, id in enumerate(branch_ids(store, owner, session)):
        own = _own_events(store, owner, id)
        found.update((id, *(event_id(session, number, event) for event in own)))
        others: list[UUID] = []
        for events in range(own.start, own.stop + 1):
            others += (call_id(session, number, events, again) for again in (False, True))
        found |= known(store, owner, others)
    fresh = found
    while fresh:
        ends: set[UUID] = set()
        for source, _, target, _ in store.edges(owner, fresh):
            ends |= {source, target}
        fresh = ends - found - {owner}
        found |= fresh
    return found


def left_by(store: Store, owner: UUID, removal: UUID) -> set[UUID]:
    """The ids of what a session that is being deleted may have left; of a removal that cannot be
    read, none."""
    for _, _, _, data in store.nodes(owner, [removal]):
        try:
            fields = rows.read(data)[1]
            others = {UUID(id) for id in fields["others"]}
            events = own_event_ids(session_id_of(owner, fields["key"]), fields["events"])
        except (ValueError, KeyError, TypeError):
            break
        found = {*events, *others}
        for name in ("StandsFor", "AnsweredBy"):
            found.update(store.sources(owner, events, store.kinds.number("nodes.edges", name)))
        return found
    return set()


def branch_ids(store: Store, owner: UUID, session: UUID) -> list[UUID]:
    """The ids of branches, up to the last that is there."""
    found: list[UUID] = []
    while True:
        start = len(found)
        some = [branch_id(session, start + place) for place in range(BRANCHES_AT_ONCE)]
        there = known(store, owner, some)
        if not there:
            return found
        last = max(place for place, id in enumerate(some) if id in there)
        found += some[: last + 1]
        if last + 1 < BRANCHES_AT_ONCE:
            return found


def known(store: Store, owner: UUID, ids: Iterable[UUID]) -> set[UUID]:
    """Those that have a row."""
    return {id for id, _ in store.sizes(owner, ids)}


def _own_events(store: Store, owner: UUID, branch: UUID) -> range:
    """The numbers that a branch says its own have; of one that cannot be read, none: edges lead
    there."""
    for _, _, _, data in store.nodes(owner, [branch]):
        try:
            fields = rows.read(data)[1]
            return range(int(fields["fork_events"]), int(fields["events"]))
        except (ValueError, KeyError, TypeError):
            break
    return range(0)

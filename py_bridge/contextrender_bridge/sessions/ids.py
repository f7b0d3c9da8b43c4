"""Ids computed from owner, session key and numbers, so that nodes are found without a search."""

from bisect import bisect_right
from collections.abc import Sequence
from contextvars import ContextVar
from enum import IntEnum
from functools import lru_cache
from typing import Final
from uuid import UUID, uuid5

from contextrender_bridge.engine.history.branch_matching import ROOT, BranchInfo
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.sessions.session_state import SessionState

CALLER: Final[ContextVar[UUID]] = ContextVar("caller")
"""The id of the root of the user for whom the current request runs."""
IS_OWN_MACHINE: Final[ContextVar[bool]] = ContextVar("is_own_machine", default=False)
"""True if the caller owns the machine: the local user asks over loopback, and the store is a file.
Only then may a walker read the files of other programs."""
MAX_EARLIER_CALLS: Final = 3
PLACE_BYTES: Final = 7
"""The number of bytes at the end of a branch's, event's or call's id that identify it within its
session. The bytes before them are the same in all of the session's ids."""
CALL_EDGES: Final = (
    *("HasFirstCall", "AnsweredBy", "NextCall", "Misses"),
    *("ShowsComplete", "ShowsExcerpt", "Restores", "Drops"),
)
"""The types of a call's edges. `HasFirstCall` leads from the branch to the call, the other types
from the call."""


class IdKind(IntEnum):
    """The kind of node that an id of a session identifies."""

    BRANCH, EVENT, CALL, SECOND_CALL = range(4)


def caller_root() -> UUID:
    """Return the id of the caller's root."""
    return CALLER.get()


def session_id(key: str) -> UUID:
    """Return the id of the caller's session with this key."""
    return session_id_of(caller_root(), key)


@lru_cache(4096)
def session_id_of(owner: UUID, key: str) -> UUID:
    """Return the id of a user's session with this key."""
    return uuid5(owner, f"session/{key}")


@lru_cache(8192)
def _id_in_session(session: UUID, branch: int, number: int, kind: IdKind) -> UUID:
    """Return the id of a branch, event or call of a session.

    It begins with bytes of the session's id. Then follow the branch, the number and the kind. So
    nodes that are written together have neighbouring ids, and share pages of the indexes.
    """
    try:
        place = branch.to_bytes(3, "big") + number.to_bytes(3, "big") + bytes((kind,))
    except OverflowError:  # A damaged row may have any number. No node has this id then.
        return uuid5(session, f"{kind}/{branch}/{number}")
    return UUID(bytes=session.bytes[:-PLACE_BYTES] + place)


def ids_of_session(session: UUID) -> tuple[UUID, UUID]:
    """Return the smallest and the largest possible id of a session's branches, events and calls."""
    start = session.bytes[:-PLACE_BYTES]
    return UUID(bytes=start + b"\0" * PLACE_BYTES), UUID(bytes=start + b"\xff" * PLACE_BYTES)


def moved_id(id: UUID, session: UUID) -> UUID:
    """Return the id that a branch, event or call gets when it is moved to the session `session`."""
    return UUID(bytes=session.bytes[:-PLACE_BYTES] + id.bytes[-PLACE_BYTES:])


def place_of_id(id: UUID) -> tuple[int, int, int]:
    """Return the branch, the number and the IdKind in the id of a branch, event or call."""
    place = id.bytes[-PLACE_BYTES:]
    return int.from_bytes(place[:3], "big"), int.from_bytes(place[3:6], "big"), place[6]


def branch_id(session: UUID, number: int) -> UUID:
    """Return the id of a session's branch."""
    return _id_in_session(session, number, 0, IdKind.BRANCH)


def event_id(session: UUID, branch: int, number: int) -> UUID:
    """Return the id of a branch's own event."""
    return _id_in_session(session, branch, number, IdKind.EVENT)


def event_number(id: UUID) -> int:
    """Return an event's number on its branch, from its id."""
    return int.from_bytes(id.bytes[-4:-1], "big")


def owned_events(branches: Sequence[BranchInfo], branch: int) -> list[tuple[int, int, int]]:
    """Return which branch stores which events of a branch's history, in the order of the events.

    Each tuple has the number of a branch, the first event that it stores, and the event after its
    last one.
    """
    # Begin with the branch itself, and continue with its parent, until a branch has none (ROOT).
    newest_first: list[tuple[int, int, int]] = []
    stop = branches[branch].events
    while branch != ROOT:
        info = branches[branch]
        # A branch whose child forked at or before its first own event stores none of the events.
        if not newest_first or info.fork_events < stop:
            newest_first.append((branch, info.fork_events, stop))
            stop = info.fork_events
        branch = info.parent
    return newest_first[::-1]


def owners(branches: Sequence[BranchInfo], branch: int, numbers: Sequence[int]) -> list[int]:
    """Return, for each event number in a branch's history, the branch that stores its node.

    A branch stores the events from its fork on. The earlier events are stored by its parent, or by
    the parent's own parents.
    """
    owner_branches, first_events, _ = zip(*owned_events(branches, branch), strict=True)
    # Of the branches that begin at or before the event, the last one stores it.
    return [owner_branches[bisect_right(first_events, number) - 1] for number in numbers]


def event_ids(
    session: UUID, branches: Sequence[BranchInfo], branch: int, numbers: Sequence[int]
) -> list[UUID]:
    """Return the ids of the events with these numbers in a branch's history."""
    pairs = zip(owners(branches, branch, numbers), numbers, strict=True)
    return [event_id(session, owner, number) for owner, number in pairs]


def event_range(session: UUID, branch: int) -> tuple[UUID, UUID]:
    """Return the smallest and the largest possible id of a branch's own events."""
    return event_id(session, branch, 0), event_id(session, branch, 256**3 - 1)


def link_id(session: UUID, name: str) -> UUID:
    """Return the id of a session's share link with this name."""
    return uuid5(session, f"link/{name}")


def removal_id(session: UUID) -> UUID:
    """Return the id of the node that marks a session whose deletion has begun."""
    return uuid5(session, "removal")


def call_id(session: UUID, branch: int, events: int, is_second: bool = False) -> UUID:
    """Return the id of the model call that was made when a branch had `events` events.

    If the call is made again with the same events when the branch already has later ones, pass
    `is_second=True`, so that the second call gets another id than the first.
    """
    return _id_in_session(session, branch, events, IdKind.SECOND_CALL if is_second else IdKind.CALL)


def call_ids(
    session: UUID, branches: Sequence[BranchInfo], branch: int, event_counts: Sequence[int]
) -> list[UUID]:
    """Return the id of each call that was made after `event_counts[i]` events of a branch.

    The branch that owns the last of these events owns the call.
    """
    pairs = zip(owners(branches, branch, event_counts), event_counts, strict=True)
    return [call_id(session, owner, count) for owner, count in pairs]


def earlier_call_ids(
    session: UUID, branches: Sequence[BranchInfo], branch: int, history: History, messages: int
) -> list[UUID]:
    """Return possible ids of a branch's last calls with fewer than `messages` messages.

    The newest call is first, and there are at most `MAX_EARLIER_CALLS` calls. A call may have been
    made before each answer and before each user message. If it was not made, no node has its id. A
    call at the fork of a branch has two possible ids, because the parent may have made it.
    """
    event_counts: list[int] = []
    last_position = min(messages, len(history.roles)) - 1
    for position in range(last_position, 0, -1):  # Each call had at least one message.
        if history.roles[position] in ("assistant", "user"):
            event_counts.append(history.first_events[position])
        if len(event_counts) == MAX_EARLIER_CALLS:
            break
    # Compute the ids from the branch that stores the event at the call's place, and at a fork also
    # from the parent of that branch.
    ids = []
    for owner, count in zip(owners(branches, branch, event_counts), event_counts, strict=True):
        ids.append(call_id(session, owner, count))
        info = branches[owner]
        is_at_fork = info.parent != ROOT and info.fork_events == count
        if is_at_fork:
            ids.append(call_id(session, info.parent, count))
    return ids


def ids_ahead(state: SessionState) -> list[UUID]:
    """Return the ids of the nodes that the next call needs if it continues the newest branch."""
    ids = [state.id, branch_id(state.id, state.head)]
    if (history := state.histories.get(state.head)) is not None:
        ids += newest_ids(state, state.head, history, len(history.roles))
    return ids


def newest_ids(state: SessionState, branch: int, history: History, messages: int) -> list[UUID]:
    """Return the ids of the nodes that a call with a branch's first `messages` messages needs.

    They are the events of the last message, this call, and the calls before it. Some of these calls
    may not exist.
    """
    if not messages:
        return []
    session, branches = state.id, state.branches
    stop = history.events_before(messages)
    last_events = range(history.first_events[messages - 1], stop)
    return [
        *event_ids(session, branches, branch, last_events),
        *call_ids(session, branches, branch, [stop]),
        *earlier_call_ids(session, branches, branch, history, messages),
    ]


def compaction_id(session: UUID, event: UUID, limit: int, model: str) -> UUID:
    """Return the id of a model's summary of a result, of at most `limit` tokens."""
    return uuid5(session, f"compaction/{event}/{limit}/{model}")

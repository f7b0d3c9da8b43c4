"""Ids that follow from what they name: a node is found without a search, under its owner's root."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from enum import IntEnum
from functools import lru_cache
from operator import itemgetter
from typing import Final
from uuid import UUID, uuid5

from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.session_cache import ROOT, BranchInfo, SessionState

FIRST: Final = itemgetter(0)
CALLER: Final[ContextVar[UUID]] = ContextVar("caller")
"""The id of the root of the user for whom the current request runs."""
LOOKED_BACK: Final = 3
PLACE_BYTES: Final = 7
"""The last bytes of the id of a session's branch, event or call: they name it. The bytes before
them are the session's own."""
JOINS: Final = (
    *("AwaitsAnswer", "AnsweredBy", "NextCall", "Misses"),
    *("ShowsComplete", "ShowsExcerpt", "Restores", "Drops"),
)
"""The types of a call's edges; only the first leads from its branch."""


class IdKind(IntEnum):
    """What of a branch an id names."""

    BRANCH, EVENT, CALL, CALL_AGAIN = range(4)


def caller_root() -> UUID:
    """The id of the caller's root."""
    return CALLER.get()


def session_id(key: str) -> UUID:
    """The id of the caller's session of that key."""
    return session_id_of(caller_root(), key)


@lru_cache(4096)
def session_id_of(owner: UUID, key: str) -> UUID:
    """The id of a user's session of that key."""
    return uuid5(owner, f"session/{key}")


@lru_cache(8192)
def _part_of(session: UUID, branch: int, number: int, part: IdKind) -> UUID:
    """The id of a part of a branch: a call asks for the same few again and again.

    Ids of what is written together stand together in the store's indexes, on few pages.
    """
    try:
        place = branch.to_bytes(3, "big") + number.to_bytes(3, "big") + bytes((part,))
    except OverflowError:  # a damaged row may tell any number
        return uuid5(session, f"{part}/{branch}/{number}")
    return UUID(bytes=session.bytes[:-PLACE_BYTES] + place)


def ids_of_session(session: UUID) -> tuple[UUID, UUID]:
    """Return the first and the last id that a session's branches, events and calls may have."""
    start = session.bytes[:-PLACE_BYTES]
    return UUID(bytes=start + b"\0" * PLACE_BYTES), UUID(bytes=start + b"\xff" * PLACE_BYTES)


def moved_id(id: UUID, session: UUID) -> UUID:
    """Return the id of the same branch, event or call in another session."""
    return UUID(bytes=session.bytes[:-PLACE_BYTES] + id.bytes[-PLACE_BYTES:])


def place_of_id(id: UUID) -> tuple[int, int, int]:
    """Return the branch, the number and the IdKind of which an id of a session's part is made."""
    place = id.bytes[-PLACE_BYTES:]
    return int.from_bytes(place[:3], "big"), int.from_bytes(place[3:6], "big"), place[6]


def branch_id(session: UUID, number: int) -> UUID:
    """The id of a session's branch."""
    return _part_of(session, number, 0, IdKind.BRANCH)


def event_id(session: UUID, branch: int, number: int) -> UUID:
    """The id of a branch's own event."""
    return _part_of(session, branch, number, IdKind.EVENT)


def event_number(id: UUID) -> int:
    """Return the number of the event of that id along its branch."""
    return int.from_bytes(id.bytes[-4:-1], "big")


def owners(branches: Sequence[BranchInfo], branch: int, numbers: Sequence[int]) -> list[int]:
    """The branch that each of these events of a branch's whole line belongs to."""
    line: list[tuple[int, int]] = []
    while branch != ROOT:
        info = branches[branch]
        if not line or info.fork_events < line[-1][0]:
            line.append((info.fork_events, branch))
        branch = info.parent
    line.reverse()
    return [line[bisect_right(line, first, key=FIRST) - 1][1] for first in numbers]


def event_ids(
    session: UUID, branches: Sequence[BranchInfo], branch: int, numbers: Sequence[int]
) -> list[UUID]:
    """The ids of these events of a branch's whole line."""
    line = zip(owners(branches, branch, numbers), numbers, strict=True)
    return [event_id(session, owner, number) for owner, number in line]


def event_range(session: UUID, branch: int) -> tuple[UUID, UUID]:
    """Return the first and the last id that parts of a branch may have."""
    return event_id(session, branch, 0), event_id(session, branch, 256**3 - 1)


def own_event_ids(session: UUID, ranges: Iterable[Sequence[int]]) -> list[UUID]:
    """The ids of each branch's own events: of branch 0 those of the first range, and so on."""
    return [
        event_id(session, owner, number)
        for owner, (start, stop) in enumerate(ranges)
        for number in range(start, stop)
    ]


def link_id(session: UUID, name: str) -> UUID:
    """The id of a session's read-only link of that name."""
    return uuid5(session, f"link/{name}")


def removal_id(session: UUID) -> UUID:
    """The id of what a session leaves while it is deleted."""
    return uuid5(session, "removal")


def call_id(session: UUID, branch: int, events: int, again: bool = False) -> UUID:
    """The id of the model call that had the first `events` events of a branch; `again`: of one made
    when the branch had gone on already."""
    return _part_of(session, branch, events, IdKind.CALL_AGAIN if again else IdKind.CALL)


def call_ids(
    session: UUID, branches: Sequence[BranchInfo], branch: int, events: Sequence[int]
) -> list[UUID]:
    """The ids of the calls that had so many events of a branch's whole line."""
    line = zip(owners(branches, branch, events), events, strict=True)
    return [call_id(session, owner, number) for owner, number in line]


def earlier_call_ids(
    session: UUID, branches: Sequence[BranchInfo], branch: int, history: History, messages: int
) -> list[UUID]:
    """The ids of a line's last calls with fewer messages, the newest first: those before each
    answer, and before what a user said instead; and of a rewritten past that goes on from a call
    which its parent's own answer followed, too, that call's."""
    roles, first_events = history.roles, history.first_events
    events: list[int] = []
    position = min(messages, len(roles)) - 1
    while position > 0 and len(events) < LOOKED_BACK:
        if roles[position] in ("assistant", "user"):
            events.append(first_events[position])
        position -= 1
    found = []
    for owner, number in zip(owners(branches, branch, events), events, strict=True):
        found.append(call_id(session, owner, number))
        info = branches[owner]
        if info.parent != ROOT and info.fork_events == number:
            found.append(call_id(session, info.parent, number))
    return found


def ids_ahead(state: SessionState) -> list[UUID]:
    """What the next call needs that goes on from the branch written last."""
    ids = [state.id, branch_id(state.id, state.head)]
    if (history := state.histories.get(state.head)) is not None:
        ids += newest_ids(state, state.head, history, len(history.roles))
    return ids


def newest_ids(state: SessionState, branch: int, history: History, messages: int) -> list[UUID]:
    """What the next call goes on from after so many messages of a line: the ids of the last
    message's events and of the last calls."""
    if not messages:
        return []
    session, branches = state.id, state.branches
    stop = history.events_before(messages)
    last = range(history.first_events[messages - 1], stop)
    return [
        *event_ids(session, branches, branch, last),
        *call_ids(session, branches, branch, [stop]),
        *earlier_call_ids(session, branches, branch, history, messages),
    ]


def compaction_id(session: UUID, event: UUID, limit: int, model: str) -> UUID:
    """The id of a result's stand-in of at most `limit` tokens by that model."""
    return uuid5(session, f"compaction/{event}/{limit}/{model}")


def summary_shelf_id(session: UUID, way: str) -> UUID:
    """The id of the shelf of summaries made one way."""
    return uuid5(session, f"summaries/{way}")


def summary_id(session: UUID, way: str, digest: str) -> UUID:
    """The id of one way's summary of a transcript with that digest."""
    return uuid5(session, f"summary/{way}/{digest}")

"""Ids that follow from what they name: a node is found without a search, under its owner's root."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from uuid import UUID, uuid5

from engine.history.branches import BranchInfo, owners
from graph.runtime.owner import caller_root


def session_id(key: str) -> UUID:
    """The id of the caller's session of that key."""
    return session_id_of(caller_root(), key)


@lru_cache(4096)
def session_id_of(owner: UUID, key: str) -> UUID:
    """The id of a user's session of that key."""
    return uuid5(owner, f"session/{key}")


def branch_id(session: UUID, number: int) -> UUID:
    """The id of a session's branch."""
    return uuid5(session, f"branch/{number}")


def event_id(session: UUID, branch: int, number: int) -> UUID:
    """The id of a branch's own event."""
    return uuid5(session, f"event/{branch}/{number}")


def event_ids(
    session: UUID, branches: list[BranchInfo], branch: int, start: int, stop: int
) -> list[UUID]:
    """The ids of events `start` to `stop` of a branch's whole line, in order."""
    return [
        event_id(session, owner, number) for owner, number in owners(branches, branch, start, stop)
    ]


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


def frozen_id(session: UUID, branch: int, key: str) -> UUID:
    """The id of what a branch's calls showed under settings `key`."""
    return uuid5(session, f"frozen/{branch}/{key}")


def compaction_id(session: UUID, event: UUID, limit: int, model: str) -> UUID:
    """The id of a result's stand-in of at most `limit` tokens by that model."""
    return uuid5(session, f"compaction/{event}/{limit}/{model}")


def summary_shelf_id(session: UUID, way: str) -> UUID:
    """The id of the shelf of summaries made one way."""
    return uuid5(session, f"summaries/{way}")


def summary_id(session: UUID, way: str, digest: str) -> UUID:
    """The id of one way's summary of a transcript with that digest."""
    return uuid5(session, f"summary/{way}/{digest}")

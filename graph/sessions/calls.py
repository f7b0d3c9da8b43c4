"""Which edges a branch's model calls must have, by what their nodes and its events tell."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final
from uuid import UUID

from engine.call.page import Standing
from engine.call.record import CallRecord
from engine.history.branches import BranchInfo
from engine.history.history import History
from graph.sessions import ids

LOOKED_BACK: Final = 3
JOINS: Final = ("Waiting", "Answered", "Shows", "ShowsPart", "Drops")
"""The types of a call's edges; only the first leads to it."""
NOTHING: Final = Standing(frozenset(), frozenset())


def earlier_call_ids(
    session: UUID, branches: Sequence[BranchInfo], branch: int, history: History, messages: int
) -> list[UUID]:
    """The ids of a line's last calls with fewer messages, the newest first: those before each
    answer, and before what a user said instead."""
    roles, first_events = history.roles, history.first_events
    spoken = (
        first_events[position]
        for position in range(min(messages, len(roles)) - 1, 0, -1)
        if roles[position] in ("assistant", "user")
    )
    return ids.earlier_call_ids(session, branches, branch, list(islice(spoken, LOOKED_BACK)))


def changes(now: CallRecord, before: CallRecord | None) -> Mapping[str, set[int]]:
    """The results that came into view with a call, in whole or in part, and those that left, by
    the type of the edge that says so."""
    then = Standing.noted(before) if before is not None else NOTHING
    here = Standing.noted(now)
    return {
        "Shows": set(here.complete - then.complete),
        "ShowsPart": set(here.replaced - then.replaced),
        "Drops": set((then.complete | then.replaced) - (here.complete | here.replaced)),
    }


def call_places(
    session: UUID, info: BranchInfo, history: History
) -> Iterator[tuple[UUID, int, bool]]:
    """The ids that calls of a branch may have, how many messages each had, and whether the branch
    had gone on already."""
    for messages in range(info.fork_messages, len(history) + 1):
        events = history.events_before(messages)
        for again in (False, True):
            yield ids.call_id(session, info.number, events, again), messages, again


def fact_in(fields: Mapping[str, Any] | None) -> CallRecord | None:
    """What a call's node tells; None where it does not."""
    try:
        return CallRecord.from_json(fields) if fields else None
    except (KeyError, TypeError, ValueError):
        return None

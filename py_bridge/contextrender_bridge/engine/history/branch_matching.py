"""The recorded branch that a caller's messages continue.

A session is a tree of branches. A caller's messages continue a branch, repeat a call, or differ
from what is recorded and so start another branch. Digests are cumulative, so two transcripts that
share a digest share all messages before it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, Self

from contextrender_bridge.base.errors import HistoryDiverged
from contextrender_bridge.engine.history.history import NO_CALL, History

ROOT = -1
"""The parent of a branch that begins with a session's first message."""

_MAX_SEARCHED_BRANCHES = 16
_RANDOM = re.compile(r"(?=[a-z0-9]*[a-z][0-9])(?=[a-z0-9]*[0-9][a-z])[a-z0-9]{12,}", re.IGNORECASE)
"""A part of an id that is random, in contrast to counters and words such as a tool's name."""


@dataclass(slots=True, frozen=True)
class BranchInfo:
    """A branch of a session: the first `fork_messages` messages of `parent`, then its own.

    `messages` and `events` count the parent's, too. `digest` is the digest after the last message,
    `first_digest` the digest after the first message of its own.
    """

    number: int
    parent: int = ROOT
    fork_messages: int = 0
    fork_events: int = 0
    messages: int = 0
    events: int = 0
    digest: str = ""
    first_digest: str = ""

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the branch of a mapping that has at least these fields."""
        return cls(**{field.name: fields[field.name] for field in dataclass_fields(cls)})

    @classmethod
    def from_stored(cls, fields: Mapping[str, Any] | None, number: int) -> Self | None:
        """Return the branch of that number from its node's fields; None if these are corrupted."""
        try:
            info = cls.from_fields(fields or {})
            counts = (info.fork_messages, info.messages), (info.fork_events, info.events)
            is_intact = info.number == number and ROOT <= info.parent < number
            is_intact &= all(0 <= fork_count <= count for fork_count, count in counts)
        except (KeyError, TypeError):
            return None
        return info if is_intact and isinstance(info.digest, str) else None


@dataclass(slots=True, frozen=True)
class BranchMatch:
    """The recorded messages of a caller's transcript: the first `matched` ones of `branch`.

    `branch` is ROOT if none of its messages is recorded. The other messages of the transcript are
    appended to the branch if it ends after `matched` messages; otherwise they start a new branch.
    """

    branch: int
    matched: int


def match_branch(
    branches: Sequence[BranchInfo],
    head: int,
    offset: int,
    prefix: str,
    digests: Sequence[str],
    history_of: Callable[[int], History],
) -> BranchMatch:
    """Return the recorded branch that has the most of a transcript's first messages.

    The caller sends the messages from position `offset` on, and `digests` are the transcript's
    cumulative digests after each of these. `prefix` is the digest of the messages before them.
    `head` is the branch that was used last. `history_of` reads a branch's history. Raise
    HistoryDiverged, with the number of recorded messages, if no branch has the prefix.
    """
    branch, matched = ROOT, 0
    if offset:
        with_prefix = _branch_with_prefix(branches, head, offset, prefix, history_of)
        branch, matched = _oldest_ancestor_with(branches, with_prefix, offset), offset
    for info in branches:
        matched_to_first_own = info.fork_messages + 1
        if matched_to_first_own > matched and _has_first_own_message(digests, offset, info):
            branch, matched = info.number, matched_to_first_own
    if branch == ROOT:
        return BranchMatch(ROOT, 0)
    recorded_digests = history_of(branch).digests[matched:]
    sent_digests = digests[matched - offset :]
    return BranchMatch(branch, matched + _count_equal_first(recorded_digests, sent_digests))


def _oldest_ancestor_with(branches: Sequence[BranchInfo], branch: int, messages: int) -> int:
    """Return a branch's oldest ancestor, or itself, that has all of its first `messages`."""
    while branches[branch].fork_messages >= messages:
        branch = branches[branch].parent
    return branch


def _has_first_own_message(digests: Sequence[str], offset: int, branch: BranchInfo) -> bool:
    """Return whether a transcript has a branch's messages up to the first one after the fork.

    Equal cumulative digests mean that all messages up to there are equal. `digests` are the
    transcript's, from position `offset` on.
    """
    index = branch.fork_messages - offset
    return 0 <= index < len(digests) and digests[index] == branch.first_digest


def _count_equal_first(recorded_digests: Sequence[str], sent_digests: Sequence[str]) -> int:
    """Return how many first digests are equal in both sequences."""
    equal_count = 0
    for recorded_digest, sent_digest in zip(recorded_digests, sent_digests, strict=False):
        if recorded_digest != sent_digest:
            break
        equal_count += 1
    return equal_count


def is_same_conversation(
    history: History, matched: int, messages: Sequence[Mapping[str, Any]]
) -> bool:
    """Return whether a history that differs from a recorded one is surely the same conversation.

    `history` is the recorded one, whose first `matched` messages are equal. `messages` are the
    other history's messages after these. Only one conversation has a call with a random id. So
    both are the same if they share such a call, and the model made it after the first request, or
    its result follows the point where the two differ. Calls in the first request do not count,
    because they may be examples that an application sends in each conversation.
    """
    later_ids = {str(message.get("tool_call_id")) for message in messages}
    results, first_time = history.results, next(iter(history.times), 0.0)
    for number, id in enumerate(results.call_id):
        asked_at = results.call_message[number]
        if results.message[number] >= matched:
            is_shared = id in later_ids
        else:
            is_shared = asked_at != NO_CALL and history.times[asked_at] > first_time
        tool = history.names[results.event[number]]
        if is_shared and any(part[0] not in tool for part in _RANDOM.finditer(id)):
            return True
    return False


def shared_events(branches: Sequence[BranchInfo], branch: int, other: int) -> int:
    """Return how many events both branches begin with, those of their parents included."""
    shared_by_branch = _events_shared_with_ancestors(branches, branch)
    other_shared = _events_shared_with_ancestors(branches, other)
    # The first ancestor that both have, from the leaves on, is where they part.
    ancestor = next((number for number in other_shared if number in shared_by_branch), ROOT)
    if ancestor == ROOT:
        return 0
    return min(other_shared[ancestor], shared_by_branch[ancestor])


def _events_shared_with_ancestors(branches: Sequence[BranchInfo], branch: int) -> dict[int, int]:
    """Return how many events a branch shares with itself and each ancestor, in this order."""
    shared: dict[int, int] = {}
    event_count, current = branches[branch].events, branch
    while current != ROOT:
        shared[current] = event_count
        event_count = min(event_count, branches[current].fork_events)
        current = branches[current].parent
    return shared


def _branch_with_prefix(
    branches: Sequence[BranchInfo],
    head: int,
    offset: int,
    prefix: str,
    history_of: Callable[[int], History],
) -> int:
    """Return a branch whose digest after `offset` messages is `prefix`.

    A branch that ends there comes first, then the head, then the newest. Raise HistoryDiverged if
    none of the branches searched has the prefix.
    """
    for info in branches:
        if info.messages == offset and info.digest == prefix:
            return info.number
    newest_first = [head, *(info.number for info in reversed(branches) if info.number != head)]
    for number in newest_first[:_MAX_SEARCHED_BRANCHES]:
        is_long_enough = number < len(branches) and branches[number].messages >= offset
        if is_long_enough and history_of(number).digests[offset - 1 : offset] == [prefix]:
            return number
    recorded_count = branches[head].messages if branches else 0
    raise HistoryDiverged(
        "the prefix is not what is recorded at this offset; send all messages with offset 0",
        recorded=recorded_count,
    )

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
    """A branch of a session: the first `fork_messages` messages of `parent`, then its own messages.

    `messages` and `events` count all messages and events of the branch, also those before the fork.
    `digest` is the digest of all its messages. `first_digest` is the digest of the messages up to
    its first own message.
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
        """Return the branch whose fields are in the mapping. The mapping may have other entries."""
        return cls(**{field.name: fields[field.name] for field in dataclass_fields(cls)})

    @classmethod
    def from_stored(cls, fields: Mapping[str, Any] | None, number: int) -> Self | None:
        """Return the branch with this number from its node's fields; None if they are corrupted."""
        try:
            info = cls.from_fields(fields or {})
            is_intact = (
                info.number == number
                and ROOT <= info.parent < number
                and 0 <= info.fork_messages <= info.messages
                and 0 <= info.fork_events <= info.events
                and isinstance(info.digest, str)
            )
        except (KeyError, TypeError):
            return None
        return info if is_intact else None


@dataclass(slots=True, frozen=True)
class BranchMatch:
    """The branch that has the first `matched` messages of a caller's transcript.

    `branch` is its number, or ROOT if none of the transcript's messages is recorded. If the branch
    has no further messages, the transcript's other messages are appended to it. Otherwise they
    start a new branch.
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
    """Return the recorded branch that shares the most first messages with a caller's transcript.

    The caller sends only the transcript's messages from position `offset` on. `digests` has the
    digest of the transcript up to each of these messages. `prefix` is the digest of the messages
    before `offset`. `head` is the branch that was used last. `history_of` reads a branch's history.
    If no branch has the messages before `offset`, raise HistoryDiverged with the number of recorded
    messages.
    """
    branch, matched = ROOT, 0  # ROOT stands for no branch
    if offset:
        # The messages before `offset` were not sent, so their digest must be recorded. Begin with
        # the oldest branch that has them: the loop below only finds branches that forked later.
        prefix_branch = _branch_with_prefix(branches, head, offset, prefix, history_of)
        branch, matched = _oldest_ancestor_with(branches, prefix_branch, offset), offset
    # A branch differs from its parent from its first own message on. If the transcript has the
    # first own messages of several branches, the branch with the latest fork matches most.
    for info in branches:
        matched_to_first_own = info.fork_messages + 1
        if matched_to_first_own > matched and _has_first_own_message(digests, offset, info):
            branch, matched = info.number, matched_to_first_own
    if branch == ROOT:
        return BranchMatch(ROOT, 0)
    # Count how many further messages of the branch are equal to those of the transcript.
    recorded_digests = history_of(branch).digests[matched:]
    sent_digests = digests[matched - offset :]
    return BranchMatch(branch, matched + _count_equal_first(recorded_digests, sent_digests))


def _oldest_ancestor_with(branches: Sequence[BranchInfo], branch: int, messages: int) -> int:
    """Return the oldest ancestor that has the first `messages` messages of a branch.

    If no ancestor has all of them, return the branch.
    """
    while branches[branch].fork_messages >= messages:
        branch = branches[branch].parent
    return branch


def _has_first_own_message(digests: Sequence[str], offset: int, branch: BranchInfo) -> bool:
    """Return whether a transcript begins with a branch's messages up to the branch's own first one.

    `digests` has the transcript's digest after each message from position `offset` on. A digest
    covers all messages so far, so equal digests mean that all these messages are equal.
    """
    index = branch.fork_messages - offset
    return 0 <= index < len(digests) and digests[index] == branch.first_digest


def _count_equal_first(recorded_digests: Sequence[str], sent_digests: Sequence[str]) -> int:
    """Return the number of digests that are equal in both sequences before the first difference."""
    equal_count = 0
    for recorded_digest, sent_digest in zip(recorded_digests, sent_digests, strict=False):
        if recorded_digest != sent_digest:
            break
        equal_count += 1
    return equal_count


def is_same_conversation(
    history: History, matched: int, messages: Sequence[Mapping[str, Any]]
) -> bool:
    """Return whether a caller's history is certain to continue a recorded conversation.

    It is if both have a call with the same random id. `history` is the recorded conversation. The
    caller's history begins with the same `matched` messages, and goes on with `messages`.
    """
    # Compare the ids of all recorded calls: those in shared messages, and those in later ones.
    later_ids = {str(message.get("tool_call_id")) for message in messages}
    results, first_time = history.results, next(iter(history.times), 0.0)
    for number, id in enumerate(results.call_id):
        call_message = results.call_message[number]
        is_in_both = results.message[number] < matched
        if is_in_both:
            # A call in the first request proves nothing, because an application may send the same
            # example calls at the beginning of every conversation.
            is_shared = call_message != NO_CALL and history.times[call_message] > first_time
        else:
            is_shared = id in later_ids
        if is_shared and _is_random(id, history.names[results.event[number]]):
            return True
    return False


def _is_random(id: str, tool: str) -> bool:
    """Return whether a call's id has a random part. A part of the tool's name is not random."""
    return any(part[0] not in tool for part in _RANDOM.finditer(id))


def shared_events(branches: Sequence[BranchInfo], branch: int, other: int) -> int:
    """Return the number of first events that two branches have in common."""
    shared_by_ancestor = _events_shared_with_ancestors(branches, branch)
    shared_by_other_ancestor = _events_shared_with_ancestors(branches, other)
    # The newest ancestor of both has all events that they have in common.
    for ancestor, event_count in shared_by_other_ancestor.items():
        if ancestor in shared_by_ancestor:
            return min(event_count, shared_by_ancestor[ancestor])
    return 0


def _events_shared_with_ancestors(branches: Sequence[BranchInfo], branch: int) -> dict[int, int]:
    """Map the number of each ancestor of a branch to the number of first events that both share.

    The branch itself is the first key, then its parent and so on.
    """
    shared: dict[int, int] = {}
    event_count, ancestor = branches[branch].events, branch
    while ancestor != ROOT:
        shared[ancestor] = event_count
        event_count = min(event_count, branches[ancestor].fork_events)
        ancestor = branches[ancestor].parent
    return shared


def _branch_with_prefix(
    branches: Sequence[BranchInfo],
    head: int,
    offset: int,
    prefix_digest: str,
    history_of: Callable[[int], History],
) -> int:
    """Return a branch whose digest after `offset` messages is `prefix_digest`.

    Prefer a branch that ends there, then the head, then the newest branch. Raise HistoryDiverged if
    no branch has the digest. At most `_MAX_SEARCHED_BRANCHES` histories are read.
    """
    # A branch that ends at `offset` is found without reading its history.
    for info in branches:
        if info.messages == offset and info.digest == prefix_digest:
            return info.number
    # A longer branch may have the digest in its middle: `digests[offset - 1]` is the digest after
    # `offset` messages.
    head_first = sorted(branches, key=lambda info: (info.number != head, -info.number))
    for info in head_first[:_MAX_SEARCHED_BRANCHES]:
        if info.messages >= offset:
            digests = history_of(info.number).digests
            if len(digests) >= offset and digests[offset - 1] == prefix_digest:
                return info.number
    recorded_count = branches[head].messages if branches else 0
    raise HistoryDiverged(
        "the prefix is not what is recorded at this offset; send all messages with offset 0",
        recorded=recorded_count,
    )

"""The branch that a caller's messages continue, and the sessions cached in this process.

A session is a tree of branches. A caller's messages continue a branch, repeat a call, or differ
from what is recorded and so start another branch. Digests are cumulative, so two transcripts that
share a digest share all messages before it.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from typing import Any, Self
from uuid import UUID

from contextrender_bridge.base.errors import HistoryDiverged
from contextrender_bridge.engine.history.history import History

ROOT = -1
_MAX_SEARCHED_BRANCHES = 16


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

    `branch` is ROOT if no message is recorded. The caller's other messages are appended to the
    branch if it ends after `matched` messages; otherwise they start a new branch.
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
    """Return the longest match of the transcript that continues `prefix` after `offset` messages.

    `prefix` is the digest after `offset` messages. `digests` are the cumulative digests of the
    messages that the caller sent, which follow. Raise HistoryDiverged, with the number of recorded
    messages, if no branch has the prefix.
    """
    best = BranchMatch(ROOT, 0)
    if offset:
        best = BranchMatch(_branch_with_prefix(branches, head, offset, prefix, history_of), offset)
        while branches[best.branch].fork_messages >= offset:
            # The prefix is also the parent's, which may continue as the caller's transcript does.
            best = BranchMatch(branches[best.branch].parent, offset)
    for info in branches:
        index = info.fork_messages - offset
        shares = 0 <= index < len(digests) and digests[index] == info.first_digest
        if shares and (info.fork_messages >= best.matched or best.branch == ROOT):
            best = BranchMatch(info.number, info.fork_messages + 1)
    if best.branch == ROOT:
        return best
    recorded_digests = history_of(best.branch).digests
    matched = best.matched
    while matched < len(recorded_digests) and matched - offset < len(digests):
        if recorded_digests[matched] != digests[matched - offset]:
            break
        matched += 1
    return BranchMatch(best.branch, matched)


def shared_events(branches: Sequence[BranchInfo], branch: int, other: int) -> int:
    """Return how many events both branches begin with, those of their parents included."""
    ends: dict[int, int] = {}
    end, current = branches[branch].events, branch
    while current != ROOT:
        ends[current] = end
        end, current = min(end, branches[current].fork_events), branches[current].parent
    end, current = branches[other].events, other
    while current not in ends and current != ROOT:
        end, current = min(end, branches[current].fork_events), branches[current].parent
    return min(end, ends.get(current, 0))


def _branch_with_prefix(
    branches: Sequence[BranchInfo],
    head: int,
    offset: int,
    prefix: str,
    history_of: Callable[[int], History],
) -> int:
    """Return the head or the newest other branch whose digest after `offset` is `prefix`."""
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


Key = tuple[str, str]


@dataclass(slots=True)
class SessionState:
    """A session as of `revision`. Its `epoch` differs from that of an earlier session of its key.

    It is `changed` while it has messages that are not committed. `nodes` are the stored nodes that
    the next call needs; the engine does not read them.
    """

    id: UUID
    epoch: float
    revision: int
    head: int
    branches: list[BranchInfo]
    histories: dict[int, History] = field(default_factory=dict)
    changed: bool = False
    nodes: dict[UUID, Any] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes. Shared texts are counted once."""
        nodes = 3_000 * len(self.nodes)
        return nodes + 600 * len(self.branches) + sum(h.nbytes for h in self.histories.values())


class SessionCache:
    """A thread-safe cache of session states by (owner, session), of about `limit` bytes.

    Only the holder of a session's lock may change its state.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._guard = threading.Lock()
        self._states: OrderedDict[Key, tuple[SessionState, int, float]] = OrderedDict()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """The memory of all states when they were put, in bytes."""
        return self._bytes

    def get(self, key: Key) -> SessionState | None:
        """Return the state of a session, or None. It is then the most recently used one."""
        with self._guard:
            entry = self._states.get(key)
            if entry is None:
                return None
            state, size, _ = entry
            self._states[key] = state, size, time.monotonic()
            self._states.move_to_end(key)
            return state

    def put(self, key: Key, state: SessionState) -> None:
        """Add a state. Drop the least recently used states, then its own texts, above the limit."""
        size = state.nbytes
        with self._guard:
            self._forget(key)
            self._states[key] = state, size, time.monotonic()
            self._bytes += size
            while self._bytes > self.limit and len(self._states) > 1:
                self._forget(next(iter(self._states)))
            if self._bytes > self.limit:
                for history in state.histories.values():
                    history.forget_texts()
                head = state.histories.get(state.head)
                state.histories = {} if head is None else {state.head: head}
                self._forget(key)
                self._states[key] = state, state.nbytes, time.monotonic()
                self._bytes += state.nbytes
                if self._bytes > 4 * self.limit:
                    self._forget(key)

    def drop_idle(self, size: int, seconds: float) -> bool:
        """Drop states of at least `size` bytes that were not used for `seconds`.

        Return whether there were any. A request that still works on a state puts it back.
        """
        latest = time.monotonic() - seconds
        with self._guard:
            idle = [
                key
                for key, (_, state_size, used_at) in self._states.items()
                if state_size >= size and used_at < latest
            ]
            for key in idle:
                self._forget(key)
        return bool(idle)

    def drop(self, key: Key) -> None:
        """Drop a state."""
        with self._guard:
            self._forget(key)

    def clear(self) -> None:
        """Drop every state."""
        with self._guard:
            self._states.clear()
            self._bytes = 0

    def _forget(self, key: Key) -> None:
        entry = self._states.pop(key, None)
        if entry is not None:
            self._bytes -= entry[1]

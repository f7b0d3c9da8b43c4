"""Where a caller's messages belong in what is recorded, and the sessions kept in process.

A session is a tree of branches: a message is a continuation, a retry or a rewritten past. Digests
are cumulative, so two transcripts that share a digest share everything before it.
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
_MOST_SEARCHED = 16


@dataclass(slots=True, frozen=True)
class BranchInfo:
    """One line of a session: `parent`'s first `fork_messages` messages, then its own.

    Counts are of the whole line, `first_digest` is the digest after its first own message.
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
        """From a mapping that has at least these fields."""
        return cls(**{field.name: fields[field.name] for field in dataclass_fields(cls)})

    @classmethod
    def from_stored(cls, fields: Mapping[str, Any] | None, number: int) -> Self | None:
        """Return the branch of that number from its node's fields; None if they are not its."""
        try:
            info = cls.from_fields(fields or {})
            counts = (info.fork_messages, info.messages), (info.fork_events, info.events)
            is_sound = info.number == number and ROOT <= info.parent < number
            is_sound &= all(0 <= fork <= own for fork, own in counts)
        except (KeyError, TypeError):
            return None
        return info if is_sound and isinstance(info.digest, str) else None


@dataclass(slots=True, frozen=True)
class BranchMatch:
    """`matched` messages of the caller's transcript are already the first of `branch`.

    `branch` is ROOT when none is. With messages left over, they go on after `matched`: appended
    when the branch ends there, a new branch otherwise.
    """

    branch: int
    matched: int


def place(
    branches: Sequence[BranchInfo],
    head: int,
    offset: int,
    prefix: str,
    digests: Sequence[str],
    history_of: Callable[[int], History],
) -> BranchMatch:
    """Where the transcript that continues `prefix` after `offset` messages belongs.

    `digests` are the cumulative digests of the messages sent, from `offset` + 1 on. Raises
    HistoryDiverged, with the number of messages recorded, when nothing recorded has that prefix.
    """
    start = BranchMatch(ROOT, 0)
    if offset:
        start = BranchMatch(_with_prefix(branches, head, offset, prefix, history_of), offset)
        while branches[start.branch].fork_messages >= offset:
            # The prefix is shared with a parent, whose line may go on like the caller's.
            start = BranchMatch(branches[start.branch].parent, offset)
    best = start
    for info in branches:
        index = info.fork_messages - offset
        shares = 0 <= index < len(digests) and digests[index] == info.first_digest
        if shares and (info.fork_messages >= best.matched or best.branch == ROOT):
            best = BranchMatch(info.number, info.fork_messages + 1)
    if best.branch == ROOT:
        return best
    known = history_of(best.branch).digests
    matched = best.matched
    while matched < len(known) and matched - offset < len(digests):
        if known[matched] != digests[matched - offset]:
            break
        matched += 1
    return BranchMatch(best.branch, matched)


def shared_events(branches: Sequence[BranchInfo], branch: int, other: int) -> int:
    """How many of the first events of `other`'s line are on `branch`'s line, too."""
    ends: dict[int, int] = {}
    end, current = branches[branch].events, branch
    while current != ROOT:
        ends[current] = end
        end, current = min(end, branches[current].fork_events), branches[current].parent
    end, current = branches[other].events, other
    while current not in ends and current != ROOT:
        end, current = min(end, branches[current].fork_events), branches[current].parent
    return min(end, ends.get(current, 0))


def _with_prefix(
    branches: Sequence[BranchInfo],
    head: int,
    offset: int,
    prefix: str,
    history_of: Callable[[int], History],
) -> int:
    """The branch whose digest after `offset` messages is `prefix`; head first, then the newest."""
    for info in branches:
        if info.messages == offset and info.digest == prefix:
            return info.number
    newest_first = [head, *(info.number for info in reversed(branches) if info.number != head)]
    for number in newest_first[:_MOST_SEARCHED]:
        known = number < len(branches) and branches[number].messages >= offset
        if known and history_of(number).digests[offset - 1 : offset] == [prefix]:
            return number
    recorded = branches[head].messages if branches else 0
    raise HistoryDiverged(
        "the prefix is not what is recorded at this offset; send all messages with offset 0",
        recorded=recorded,
    )


Key = tuple[str, str]


@dataclass(slots=True)
class SessionState:
    """A session as of `revision`; `epoch` tells it from an earlier session of the same key.

    It is `changed` while it is ahead of what is committed. `nodes` are those that the next call
    will need, as the last one left them; the engine does not look at them.
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
        """A close estimate of the memory held, in bytes; texts that `nodes` and histories share are
        counted once."""
        nodes = 3_000 * len(self.nodes)
        return nodes + 600 * len(self.branches) + sum(h.nbytes for h in self.histories.values())


class SessionCache:
    """Session states by (owner, session), at most `limit` bytes of them; safe between threads.

    A state may be changed only by the holder of its session's lock.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._guard = threading.Lock()
        self._states: OrderedDict[Key, tuple[SessionState, int, float]] = OrderedDict()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """What all states held when last put, in bytes."""
        return self._bytes

    def get(self, key: Key) -> SessionState | None:
        """The state, marked as just used."""
        with self._guard:
            held = self._states.get(key)
            if held is None:
                return None
            state, size, _ = held
            self._states[key] = state, size, time.monotonic()
            self._states.move_to_end(key)
            return state

    def put(self, key: Key, state: SessionState) -> None:
        """Keeps a state, and drops others, or its own texts, beyond the limit."""
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

        Return whether there were any. Who still works on one goes on, and puts it back.
        """
        latest = time.monotonic() - seconds
        with self._guard:
            idle = [k for k, (_, held, at) in self._states.items() if held >= size and at < latest]
            for key in idle:
                self._forget(key)
        return bool(idle)

    def drop(self, key: Key) -> None:
        """Forgets a state."""
        with self._guard:
            self._forget(key)

    def clear(self) -> None:
        """Forgets every state."""
        with self._guard:
            self._states.clear()
            self._bytes = 0

    def _forget(self, key: Key) -> None:
        held = self._states.pop(key, None)
        if held is not None:
            self._bytes -= held[1]

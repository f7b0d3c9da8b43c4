"""The rows that one request writes, their statements, their queue, and why a store refuses them.

Statements have `?` for values, the owner first.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from contextrender_bridge.base.errors import ServerError

REFUSED: Final = "The store did not take the change; nothing was written."
BY_TARGET = "/* by target */"
"""A mark after `FROM edges`: use the index. SQLite would read all of an owner's edges instead."""

INSERT = (
    "INSERT INTO nodes (owner, id, rev, kind, listed, data) VALUES (?, ?, 1, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)
UPDATE = "UPDATE nodes SET rev = rev + 1, data = ? WHERE owner = ? AND id = ? AND rev = ?"
FENCE = "UPDATE nodes SET rev = rev + 1 WHERE owner = ? AND id = ? AND rev = ?"
REMOVE = "DELETE FROM nodes WHERE owner = ? AND id = ? AND rev = ?"
JOIN = (
    "INSERT INTO edges (owner, source, kind, target, data) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (owner, source, kind, target) DO UPDATE SET data = excluded.data"
)
PART = "DELETE FROM edges WHERE owner = ? AND source = ? AND kind = ? AND target = ?"
PART_OUT = "DELETE FROM edges WHERE owner = ? AND source = ?"
PART_IN = f"DELETE FROM edges {BY_TARGET} WHERE owner = ? AND target = ?"

WIPED_AT_ONCE: Final = 2000
"""The number of nodes, or of nodes whose edges go: it keeps others from writing for 20 ms."""
MOST_TOGETHER: Final = 64
"""The number of batches that the queue writes in one transaction."""

End = tuple[UUID, UUID, int, UUID]
"""An edge: owner, source, kind, target. There is one of a kind between two nodes."""


class StoreUnavailable(ServerError):
    """The database does not answer, is busy for too long or refused the write."""

    code = "storage_unavailable"
    status = 503


class StoreDamaged(StoreUnavailable):
    """The database's own file is damaged, so that a row or a page is not one that was written."""

    def __init__(self) -> None:
        super().__init__("The store's file is damaged; nothing was written. Restore a backup.")


class WriteConflict(Exception):
    """Another request wrote first, so what this one read has changed. Nothing was written."""


@dataclass(slots=True)
class WriteBatch:
    """Rows to write together or not at all, each with its owner first.

    `update`, `fence` and `remove` name the revision that was read; a row that has another by now,
    and an `insert` of a node that is there, make the whole batch fail with `WriteConflict`.
    """

    insert: list[tuple[UUID, UUID, int, float | None, bytes]] = field(default_factory=list)
    update: list[tuple[bytes, UUID, UUID, int]] = field(default_factory=list)
    fence: list[tuple[UUID, UUID, int]] = field(default_factory=list)
    remove: list[tuple[UUID, UUID, int]] = field(default_factory=list)
    join: list[tuple[UUID, UUID, int, UUID, bytes | None]] = field(default_factory=list)
    part: list[End] = field(default_factory=list)
    cut: list[tuple[UUID, tuple[UUID, ...]]] = field(default_factory=list)
    """Owners and nodes of theirs whose edges go."""
    wipe: list[tuple[UUID, tuple[UUID, ...]]] = field(default_factory=list)
    """Owners and nodes of theirs that go without their edges, whatever their revisions."""


def cut_statements(owner: UUID, ids: Sequence[UUID]) -> Iterator[tuple[str, Sequence[object]]]:
    """Return the statements that delete every edge at these nodes, with their values."""
    condition = f"IN ({','.join('?' * len(ids))})"
    yield f"DELETE FROM edges WHERE owner = ? AND source {condition}", (owner, *ids)
    yield f"DELETE FROM edges {BY_TARGET} WHERE owner = ? AND target {condition}", (owner, *ids)


def wipe_statements(owner: UUID, ids: Sequence[UUID]) -> Iterator[tuple[str, Sequence[object]]]:
    """Return the statements that delete these nodes and their rows in quarantine."""
    condition = f"owner = ? AND id IN ({','.join('?' * len(ids))})"
    yield f"DELETE FROM nodes WHERE {condition}", (owner, *ids)
    yield f"DELETE FROM quarantine WHERE {condition}", (owner, *map(str, ids))


@dataclass(slots=True)
class _Job:
    unit: WriteBatch
    is_done: bool = False
    failure: BaseException | None = None


class WriteQueue:
    """The batches that a process writes, in the order in which they come.

    A batch that comes while nothing is written is written at once, in its own thread. Others wait,
    and the next one takes all of them along: one transaction and one sync for many.
    """

    def __init__(self, write_all: Callable[[Sequence[WriteBatch]], list[Exception | None]]) -> None:
        """`write_all` returns an error, or None, for each batch."""
        self._write_all = write_all
        self._guard = threading.Lock()
        self.turn = threading.Lock()
        """Its holder writes alone. Other threads wait here: for the database's own lock they would
        wait by ever longer sleeps."""
        self._jobs: list[_Job] = []

    def write(self, unit: WriteBatch) -> None:
        """Return once the batch is written. Raise what writing it raised."""
        job = _Job(unit)
        with self._guard:
            self._jobs.append(job)
        while not job.is_done:
            with self.turn:
                if not job.is_done:
                    self._write_some()
        if job.failure is not None:
            raise job.failure

    def _write_some(self) -> None:
        with self._guard:
            jobs = self._jobs[:MOST_TOGETHER]
            del self._jobs[:MOST_TOGETHER]
        try:
            failures: Sequence[BaseException | None] = self._write_all([job.unit for job in jobs])
        except BaseException as failure:
            failures = [failure] * len(jobs)
        for job, outcome in zip(jobs, failures, strict=True):
            job.failure = outcome
            job.is_done = True

"""SQLite for the graph: all of a request is written, or none of it and the request fails.

jac-scale's own backend logs a failed commit and goes on. Here `apply` raises, and connections are
kept open between requests, so a request that only reads takes no lock.
"""

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import batched
from pathlib import Path
from typing import Any
from uuid import UUID

from jaclang.runtimelib import memory as jac_memory
from jaclang.runtimelib.changeset import ApplyReport, ChangeSet, snapshot_field_hashes
from jaclang.runtimelib.memory import SqliteMemory
from jaclang.runtimelib.serializer import Serializer
from pydantic_core import from_json

# Below SQLite's default limit on bound parameters in every version.
IDS_PER_SELECT = 500
LOCK_TIMEOUT_SECONDS = 5.0
# As the runtime would after loading the node: whoever read its edges meanwhile has a conflict.
APPEND_EDGE = """
    UPDATE anchors
    SET data = json_set(
        json_insert(data, '$.edges[#]', ?), '$.version', json_extract(data, '$.version') + 1
    )
    WHERE id = ? AND json_extract(data, '$.root') = ?
"""


class Database:
    """One SQLite file and its idle connections."""

    def __init__(self, path: Path) -> None:
        """Opens the file, creating it private and with the runtime's tables."""
        self.path = path
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = self._open()
        # Pages freed by deletes can be returned to the file system; only an empty file takes it.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        jac_memory._create_new_schema(connection)
        jac_memory._load_db_aliases(connection)
        self.release(connection)

    def acquire(self) -> sqlite3.Connection:
        """A connection for one request."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._open()

    def release(self, connection: sqlite3.Connection) -> None:
        """Take a connection back; what it did not commit is gone."""
        connection.rollback()
        with self._lock:
            self._idle.append(connection)

    def close(self) -> None:
        """Close the idle connections; the last one folds the write-ahead log into the file."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=LOCK_TIMEOUT_SECONDS, check_same_thread=False
        )
        # A reply of success means "on disk": FULL syncs the log at every commit, so it outlives a
        # power cut. NORMAL would outlive only the process.
        connection.execute("PRAGMA synchronous=FULL")
        # What is deleted is overwritten, not left readable in free pages.
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute(f"PRAGMA journal_size_limit={16 * 2**20}")
        return connection


class StrictSqlite(SqliteMemory):
    """The runtime's SQLite backend with honest commits, for one request."""

    def __init__(self, database: Database) -> None:
        """No connection is taken before it is needed."""
        super().__init__(path=str(database.path))
        self.__conn__: sqlite3.Connection | None = None
        self._database = database
        self._appended: list[tuple[str, str, str]] = []

    def _ensure_connection(self) -> None:
        self._connection()

    def close(self) -> None:
        """Give the connection back."""
        if self.__conn__ is not None:
            self._database.release(self.__conn__)
            self.__conn__ = None
        self.__mem__.clear()

    def append_edge(self, node: UUID, edge: UUID, owner: UUID | None) -> None:
        """With the next `apply`, add an edge to the stored list of a node of `owner`'s."""
        self._appended.append((str(edge), str(node), str(owner)))

    def apply(self, changeset: ChangeSet) -> ApplyReport:
        """Write the whole unit of work, or raise and write nothing."""
        report = ApplyReport()
        intents = [intent for stage in changeset.staged() for intent in stage]
        if not intents:
            return report
        connection = self._connection()
        connection.execute("BEGIN IMMEDIATE")
        try:
            for intent in intents:
                self._apply_one(connection, intent)
            for appended in self._appended:
                if connection.execute(APPEND_EDGE, appended).rowcount != 1:
                    raise LookupError("a node to join is missing")
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        self._appended.clear()
        report.applied = [intent.anchor.id for intent in intents]
        if any(intent.is_delete() for intent in intents):
            self._reclaim(connection)
        return report

    def batch_get(self, ids: list[UUID]) -> dict[UUID, Any]:
        """Anchors by id, in one SELECT for many; ids without a row are left out."""
        found = {id: self.__mem__[id] for id in ids if id in self.__mem__}
        wanted = [id for id in ids if id not in found]
        for key, data in self._rows(map(str, wanted)):
            with suppress(Exception):  # a row that no longer loads is for `get` to quarantine
                if anchor := Serializer.deserialize(data):
                    snapshot_field_hashes(anchor)
                    self.__mem__[UUID(key)] = found[UUID(key)] = anchor
        for id in wanted:
            if id not in found and (anchor := self.get(id)) is not None:
                found[id] = anchor
        return found

    def read_fields(self, ids: Iterable[str], owner: str) -> dict[str, dict[str, Any]]:
        """The stored fields of `owner`'s nodes by id, without building archetypes."""
        return {
            key: {name: value for name, value in data["archetype"].items() if name[0] != "_"}
            for key, data in self._rows(ids)
            if data["root"] == owner and "archetype" in data
        }

    def _rows(self, ids: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        for some in batched(ids, IDS_PER_SELECT):
            marks = ",".join("?" * len(some))
            query = f"SELECT id, data FROM anchors WHERE id IN ({marks})"
            for key, data in self._connection().execute(query, some):
                yield key, from_json(data, cache_strings="keys")

    def _connection(self) -> sqlite3.Connection:
        if self.__conn__ is None:
            self.__conn__ = self._database.acquire()
        return self.__conn__

    def _reclaim(self, connection: sqlite3.Connection) -> None:
        """Shrink the file and empty the log after a delete, unless somebody is reading."""
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA incremental_vacuum").fetchall()
            connection.execute("PRAGMA busy_timeout=0")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute(f"PRAGMA busy_timeout={int(LOCK_TIMEOUT_SECONDS * 1000)}")

"""From layout 1 (jaclang's own tables in `graph.db`, accounts in `users.db`) to the one of today.

The old files are not changed: once the new one is complete they move to the folder `layout-1`,
which is the backup. Interrupted anywhere, it starts again, or goes on, at the next start.
"""

import json
import sqlite3
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from graph.runtime import rows
from graph.runtime.sqlite import SqliteStore
from graph.runtime.store import Cursor, Store
from graph.runtime.unit import Unit

OLD_GRAPH: Final = "graph.db"
OLD_USERS: Final = "users.db"
BACKUP: Final = "layout-1"
ROWS_AT_ONCE: Final = 1_000
SHELVES: Final = {"Library", "Shelf"}
SHELVING: Final = {"Owns", "HasShelf", "Holds"}


def carry_over(data: Path, new: Path) -> None:
    """Makes `new` from an old folder, if that is what `data` is. Call it holding its lock."""
    old = data / OLD_GRAPH
    if not old.exists():
        return
    if not new.exists():
        part = new.with_name(f"{new.name}.part")
        for name in (part, *(part.with_name(part.name + end) for end in ("-wal", "-shm"))):
            name.unlink(missing_ok=True)
        store = SqliteStore(part)
        with closing(sqlite3.connect(old)) as graph:
            _copy_graph(graph, store)
        if (data / OLD_USERS).exists():
            _copy_users(data / OLD_USERS, store)
        store.close()
        part.rename(new)
    backup = data / BACKUP
    backup.mkdir(mode=0o700, exist_ok=True)
    for path in [*data.glob(f"{OLD_USERS}*"), *data.glob(f"{OLD_GRAPH}?*"), old]:
        path.rename(backup / path.name)


def _copy_graph(graph: sqlite3.Connection, store: Store) -> None:
    unit = Unit()
    for type_, text in graph.execute("SELECT type, data FROM anchors"):
        old = json.loads(text)
        if type_ == "NodeAnchor":
            _node(store, old, unit)
        else:
            _edge(store, old, unit)
        if len(unit.insert) + len(unit.join) >= ROWS_AT_ONCE:
            store.write(unit)
            unit = Unit()
    if unit:
        store.write(unit)
    with store.transaction() as cursor:
        _copy_aside(graph, store, cursor)


def _node(store: Store, old: dict[str, Any], unit: Unit) -> None:
    cls, fields = _fields(old)
    if cls[1] in SHELVES and cls[0].startswith("nodes."):
        return
    id = UUID(old["id"])
    owner = id if old["root"] is None or cls[1] == "Root" else UUID(old["root"])
    row = rows.pack(rows.encode(fields))
    unit.insert.append((owner, id, store.kinds.number_of(*cls), fields.get("created_at"), row))
    if cls == ("nodes.session", "Session"):
        kind = store.kinds.number_of("nodes.edges", "Owns")
        unit.join.append((owner, owner, kind, id, None))


def _edge(store: Store, old: dict[str, Any], unit: Unit) -> None:
    cls, fields = _fields(old)
    if cls[0] == "nodes.edges" and cls[1] in SHELVING:
        return
    notes = {"undirected": True} if old.get("is_undirected") else {}
    row = rows.pack(rows.encode(fields, notes)) if fields or notes else None
    owner, source, target = UUID(old["root"]), UUID(old["source"]), UUID(old["target"])
    unit.join.append((owner, source, store.kinds.number_of(*cls), target, row))


def _fields(old: dict[str, Any]) -> tuple[tuple[str, str], dict[str, Any]]:
    """Module and name of the type, and its fields as they are stored today."""
    held = old["archetype"]
    cls = (held["__module__"], held["__type__"])
    fields = {name: value for name, value in held.items() if name[0] != "_"}
    if cls == ("nodes.session", "Session"):
        fields.pop("shelf", None)
    if cls == ("nodes.events", "ToolResult"):
        fields["embedding"] = b64decode(fields["embedding"])
    return cls, fields


def _copy_aside(graph: sqlite3.Connection, store: Store, cursor: Cursor) -> None:
    """What did not load before, and the names of types that were renamed."""
    now = datetime.now(UTC).isoformat()
    for id, text, error in graph.execute("SELECT id, data, error FROM anchors_quarantine"):
        old = json.loads(text or "{}")
        if "archetype" not in old or old.get("__type__") != "NodeAnchor":
            continue
        cls, fields = _fields(old)
        owner = UUID(old["root"] or id)
        row = rows.pack(rows.encode(fields))
        values = (id, owner, 1, store.kinds.number_of(*cls), None, row, error or "", now)
        marks = ",".join("?" * len(values))
        cursor.execute(store.query(f"INSERT INTO quarantine VALUES ({marks})"), store.row(values))
    for alias in graph.execute("SELECT old_name, new_name, created_at FROM aliases"):
        cursor.execute(
            store.query("INSERT INTO aliases VALUES (?, ?, ?)"),
            store.row([x or now for x in alias]),
        )


def _copy_users(old: Path, store: Store) -> None:
    """The accounts' tables as they are: the same library reads them there."""
    with closing(sqlite3.connect(old)) as users, store.transaction() as cursor:
        for statement, name in _tables(users):
            cursor.execute(statement)
            for row in users.execute(f"SELECT * FROM {name}"):
                marks = ",".join("?" * len(row))
                cursor.execute(f"INSERT INTO {name} VALUES ({marks})", row)


def _tables(database: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    yield from database.execute("SELECT sql, name FROM sqlite_master WHERE type = 'table'")

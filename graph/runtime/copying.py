"""From one store to another, of either kind: rows as they are, verified by digest.

Interrupted, it goes on: what is there already stays. Nothing may be served from either meanwhile.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import MetaData, select

from graph.runtime.identities import Identities
from graph.runtime.snapshot import Snapshot, as_it_is
from graph.runtime.store import Store

PAGE: Final = 500
COLUMNS: Final = {
    "nodes": ("owner", "id", "rev", "kind", "listed", "data"),
    "edges": ("owner", "source", "kind", "target", "data"),
    "quarantine": ("id", "owner", "rev", "kind", "listed", "data", "error", "quarantined_at"),
    "aliases": ("old_name", "new_name", "created_at"),
}
KEYS: Final = {
    "nodes": ("owner", "id"),
    "edges": ("owner", "source", "kind", "target"),
    "quarantine": ("id",),
    "aliases": ("old_name",),
}
IDS: Final = {"owner", "source", "target"}


class NotTheSame(Exception):
    """The copy differs from the original."""


def copy_store(source: Store, target: Store) -> dict[str, int]:
    """Rows by table, once every one is in both. Raises NotTheSame."""
    Identities(source.engine())
    return copy_snapshot(as_it_is(source), target)


def copy_snapshot(source: Snapshot, target: Store) -> dict[str, int]:
    """The same of what a store held at one moment."""
    counts = {}
    for table in COLUMNS:
        counts[table] = _copy(source, target, table)
        if _digest(source, table) != _digest(as_it_is(target), table):
            raise NotTheSame(f"{table}: the target holds other rows than the source")
    counts["users"] = _copy_users(source, target)
    return counts


def _copy(source: Snapshot, target: Store, table: str) -> int:
    names = COLUMNS[table]
    marks = ", ".join("?" * len(names))
    insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks}) ON CONFLICT DO NOTHING"
    count = 0
    for page in _pages(source, table):
        values = [target.row(_row(source, target, table, row)) for row in page]
        with target.transaction() as cursor:
            cursor.executemany(target.query(insert), values)
        count += len(page)
    return count


def _pages(store: Snapshot, table: str) -> Iterator[list[Any]]:
    """Rows in the order of their keys."""
    names, keys = COLUMNS[table], KEYS[table]
    query = f"SELECT {', '.join(names)} FROM {table}"
    order = f" ORDER BY {', '.join(keys)} LIMIT {PAGE}"
    after = f" WHERE ({', '.join(keys)}) > ({', '.join('?' * len(keys))})"
    page = store.read(query + order)
    while page:
        yield page
        last = dict(zip(names, page[-1], strict=True))
        page = store.read(query + after + order, [last[key] for key in keys])


def _row(source: Snapshot, target: Store, table: str, row: Any) -> list[Any]:
    """A row with ids and types as the target has them."""
    return [
        target.kinds.number_of(*source.kinds.name(value))
        if name == "kind"
        else _plain(source, table, name, value)
        for name, value in zip(COLUMNS[table], row, strict=True)
    ]


def _plain(store: Snapshot, table: str, name: str, value: Any) -> Any:
    if name in IDS or (table == "nodes" and name == "id"):
        return store.uuid(value)
    return bytes(value) if name == "data" and value is not None else value


def _digest(store: Snapshot, table: str) -> int:
    """The same for the same rows, in whatever order."""
    total = 0
    for page in _pages(store, table):
        for row in page:
            values = [
                ".".join(store.kinds.name(value))
                if name == "kind"
                else _plain(store, table, name, value)
                for name, value in zip(COLUMNS[table], row, strict=True)
            ]
            total ^= int.from_bytes(sha256(repr(values).encode()).digest())
    return total


def _copy_users(source: Snapshot, target: Store) -> int:
    """The accounts' tables, whichever the library has."""
    Identities(target.engine())
    metadata, count = MetaData(), 0
    with source.tables() as read, target.engine().begin() as write:
        metadata.reflect(read, only=lambda name, _: name.startswith(("identity_", "sso_")))
        for table in metadata.sorted_tables:
            key = list(table.primary_key.columns)
            there = {tuple(row) for row in write.execute(select(*key))}
            for row in read.execute(select(table)).mappings():
                if tuple(row[column.name] for column in key) not in there:
                    write.execute(table.insert().values(**row))
                count += table.name == "identity_users"
    return count

"""Copying of every row of a store into another of either kind, together or not at all."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from contextrender_bridge.store.base import Read, Store
from contextrender_bridge.store.schema import columns

PAGE: Final = 500
TABLES: Final = {name: names for name, names in columns().items() if name not in ("meta", "kinds")}
KEYS: Final = {
    "nodes": ("owner", "id"),
    "edges": ("owner", "source", "kind", "target"),
    "sso_lookups": ("provider", "external_id"),
}
"""The key columns of tables; of other tables it is the first column."""


def copy_rows(source: Store, target: Store, read: Read) -> None:
    """Copy what `read` reads of `source` into `target`, which is empty."""
    numbers = {
        number: target.kinds.number(module, name)
        for number, module, name in read("SELECT number, module, name FROM kinds")
    }
    with target.transaction() as cursor:
        for table, names in TABLES.items():
            marks = ", ".join("?" * len(names))
            insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"
            for page in _pages(read, table):
                values = [
                    [_plain(source, table, *column, numbers) for column in columns]
                    for columns in (zip(names, row, strict=True) for row in page)
                ]
                target.run(cursor, (insert, values))


def _pages(read: Read, table: str) -> Iterator[Sequence[Any]]:
    """Return the rows of a table in the order of their keys, in pages."""
    names = TABLES[table]
    keys = KEYS.get(table, names[:1])
    query = f"SELECT {', '.join(names)} FROM {table}"
    order = f" ORDER BY {', '.join(keys)} LIMIT {PAGE}"
    after = f" WHERE ({', '.join(keys)}) > ({', '.join('?' * len(keys))})"
    page = read(query + order)
    while page:
        yield page
        last = dict(zip(names, page[-1], strict=True))
        page = read(query + after + order, [last[key] for key in keys])


def _plain(store: Store, table: str, name: str, value: Any, numbers: dict[int, int]) -> Any:
    """Return a value as every store takes it, with the number of its type in the target."""
    if name == "kind":
        return numbers[value]
    if name in ("owner", "source", "target") or (table == "nodes" and name == "id"):
        return store.uuid(value)
    if name == "data":
        return value and bytes(value)
    return json.dumps(value) if isinstance(value, (list, dict)) else value

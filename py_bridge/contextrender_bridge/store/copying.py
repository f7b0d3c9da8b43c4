"""Copying of every row of a store into another one of either database, in one transaction."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from contextrender_bridge.store.base import ReadRows, Store, row_data
from contextrender_bridge.store.schema import columns
from contextrender_bridge.store.writes import StoreDamaged

PAGE_ROWS: Final = 500
TABLES: Final = {
    table: names for table, names in columns().items() if table not in ("meta", "kinds")
}
"""The columns of each copied table. `meta` and `kinds` are not copied: the target has its own."""
KEYS: Final = {
    "nodes": ("owner", "id"),
    "edges": ("owner", "source", "kind", "target"),
    "sso_lookups": ("provider", "external_id"),
}
"""The key columns of tables. The key of every other table is its first column."""


def copy_rows(source: Store, target: Store, read: ReadRows) -> None:
    """Copy all rows of `source` into the empty store `target`. `read` reads from the source.

    The two stores may have different numbers for a type, so the numbers are replaced by the
    target's.
    """
    target_numbers = {
        number: target.kinds.number(module, name)
        for number, module, name in read("SELECT number, module, name FROM kinds")
    }
    with target.transaction() as cursor:
        for table, names in TABLES.items():
            # Insert page after page, with each value converted for the target.
            marks = ", ".join("?" * len(names))
            insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"
            converters = [_converter(source, table, name, target_numbers) for name in names]
            for page in _pages(read, table):
                values = [
                    [convert(value) for convert, value in zip(converters, row, strict=True)]
                    for row in page
                ]
                target.run(cursor, (insert, values))


def _pages(read: ReadRows, table: str) -> Iterator[Sequence[Any]]:
    """Yield the rows of a table in pages, in the order of their keys.

    Each page begins after the key of the last row of the page before.
    """
    names = TABLES[table]
    keys = KEYS.get(table, names[:1])
    query = f"SELECT {', '.join(names)} FROM {table}"
    order = f" ORDER BY {', '.join(keys)} LIMIT {PAGE_ROWS}"
    after_key = f" WHERE ({', '.join(keys)}) > ({', '.join('?' * len(keys))})"
    page = read(query + order)
    while page:
        yield page
        last_row = dict(zip(names, page[-1], strict=True))
        page = read(query + after_key + order, [last_row[key] for key in keys])


def _converter(
    source: Store, table: str, column: str, target_numbers: dict[int, int]
) -> Callable[[Any], Any]:
    """Return a function that converts a column's value in the source to its value in the target.

    `target_numbers` maps the number of each type in the source to its number in the target.
    """
    if column == "kind":
        return lambda number: _target_number(target_numbers, number)
    if column in ("owner", "source", "target") or (table == "nodes" and column == "id"):
        return source.uuid
    if column == "data":
        return lambda data: None if data is None else row_data(data)
    # PostgreSQL returns the value of a JSON column, SQLite its text.
    return lambda value: json.dumps(value) if isinstance(value, (list, dict)) else value


def _target_number(target_numbers: dict[int, int], number: int) -> int:
    """Return a type's number in the target. Raise StoreDamaged if the source has no such type."""
    if number not in target_numbers:
        raise StoreDamaged
    return target_numbers[number]

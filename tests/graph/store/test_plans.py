"""SQLite finds rows by index, whatever it thinks of an owner's number of edges."""

from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from graph.store.sqlite import SqliteStore
from graph.store.writes import PART, PART_IN, PART_OUT, UPDATE, cutting, wiping


def plan(store: SqliteStore, query: str, params: tuple[object, ...]) -> list[str]:
    return [row[3] for row in store.read(f"EXPLAIN QUERY PLAN {query}", params)]


def test_every_statement_reads_its_own_rows_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    asked: list[tuple[str, tuple[object, ...]]] = []
    read, one = store.read, uuid4()

    def note(query: str, params: Sequence[object] = ()) -> list[object]:
        asked.append((query, tuple(params)))
        return []

    store.read = note  # type: ignore[method-assign]
    list(store.edges(one, [one]))
    list(store.edges(one, [one, uuid4()]))
    list(store.edges_out(one, [one], 1))
    list(store.sources(one, [one], 1))
    list(store.nodes(one, [one]))
    list(store.sizes(one, [one]))
    store.nodes_with_edges(one, [one, uuid4()], [one])
    store.listed(one, 1, None, 5)
    store.read = read  # type: ignore[method-assign]
    key = (one, one)
    asked += [(PART_OUT, key), (PART_IN, key), (PART, (*key, 1, one))]
    asked.append((UPDATE, (None, b"", *key, 1)))
    asked += [(store.query(query), tuple(row)) for query, row in cutting(one, [one, uuid4()])]
    asked += [(query, tuple(row)) for query, row in wiping(one, [one, uuid4()]) if "nodes" in query]
    for query, params in asked:
        searches = [step for step in plan(store, query, params) if step[0] == "S"]
        assert searches
        for step in searches:
            assert step.startswith("SEARCH") and "owner=? AND" in step, (query, step)
    store.close()

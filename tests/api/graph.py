"""The graph in the database, read without the service."""

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from contextrender_bridge.store import rows


@dataclass
class Node:
    id: str
    kind: str
    fields: dict[str, Any]


@dataclass
class Edge:
    kind: str
    source: str
    target: str
    fields: dict[str, Any]


@dataclass
class Graph:
    """All nodes and edges of one user, without the root."""

    nodes: dict[str, Node]
    edges: list[Edge]

    @classmethod
    def read(cls, data: Path, root: str) -> "Graph":
        """Read the committed graph."""
        owner = UUID(root)
        with reading(data) as read:
            query = "SELECT source, kind, target, data FROM edges WHERE owner = ?"
            edge_rows = list(read(query, owner))
            node_rows = list(read("SELECT id, kind, data FROM nodes WHERE owner = ?", owner))
            # Read last, because a running server may add kinds but never removes one.
            kinds = dict(read("SELECT number, name FROM kinds"))
        nodes = [
            Node(_text(id), kinds[kind], _fields(data))
            for id, kind, data in node_rows
            if kinds[kind] != "Root"
        ]
        edges = [
            Edge(kinds[kind], _text(source), _text(target), _fields(data))
            for source, kind, target, data in edge_rows
        ]
        return cls({node.id: node for node in nodes}, edges)

    @property
    def counts(self) -> Counter[str]:
        kinds = [node.kind for node in self.nodes.values()] + [edge.kind for edge in self.edges]
        return Counter(kinds)

    def of(self, kind: str) -> list[Node]:
        """Return the nodes of a type, events in order."""
        nodes = [node for node in self.nodes.values() if node.kind == kind]
        return sorted(nodes, key=lambda node: node.fields.get("number", 0))

    def pairs(self, kind: str) -> list[tuple[Node, Node, dict[str, Any]]]:
        """Return the edges of a type as source, target and fields."""
        return [
            (self.nodes[edge.source], self.nodes[edge.target], edge.fields)
            for edge in self.edges
            if edge.kind == kind
        ]

    def check(self) -> None:
        """Assert that every edge joins two existing nodes, and that every node has an edge."""
        ends = set()
        for edge in self.edges:
            assert edge.kind == "Owns" or edge.source in self.nodes
            assert edge.target in self.nodes
            ends |= {edge.source, edge.target}
        assert ends >= self.nodes.keys()


def count_rows(data: Path) -> dict[str, int]:
    with reading(data) as read:
        tables = ("nodes", "edges", "quarantine")
        return {name: read(f"SELECT count(*) FROM {name}")[0][0] for name in tables}


def stored_rows(data: Path) -> list[bytes]:
    """Return the contents of every node and edge."""
    with reading(data) as read:
        data_rows = read("SELECT data FROM nodes UNION ALL SELECT data FROM edges")
    return [rows.unpack(bytes(row)) for (row,) in data_rows if row]


@contextmanager
def reading(data: Path) -> Iterator[Callable[..., list[Any]]]:
    """Open the database of a data folder; yield a function that runs a statement."""
    if address := os.environ.get("CONTEXTRENDER_DATABASE"):
        with psycopg.connect(address, autocommit=True) as remote:

            def run(query: str, *values: Any) -> list[Any]:
                cursor = remote.execute(query.replace("?", "%s"), values)
                return cursor.fetchall() if cursor.description else []

            yield run
        return
    with closing(sqlite3.connect(data / "store.db", autocommit=True)) as local:
        local.text_factory = str
        yield lambda query, *values: local.execute(
            query, [value.bytes if isinstance(value, UUID) else value for value in values]
        ).fetchall()


def _text(id: Any) -> str:
    return str(id if isinstance(id, UUID) else UUID(bytes=id))


def _fields(data: Any) -> dict[str, Any]:
    return {} if data is None else rows.read_fields(bytes(data))

"""The graph as it is in the SQLite file, read without the service."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Node:
    """A stored node: its type, fields and the ids of its edges."""

    id: str
    kind: str
    fields: dict[str, Any]
    edges: set[str]


@dataclass
class Edge:
    """A stored edge between two nodes."""

    id: str
    kind: str
    source: str
    target: str
    fields: dict[str, Any]


@dataclass
class Graph:
    """All that belongs to one user's root, the root apart."""

    nodes: dict[str, Node]
    edges: list[Edge]

    @classmethod
    def read(cls, data: Path, root: str) -> "Graph":
        """What is committed now."""
        nodes: dict[str, Node] = {}
        edges: list[Edge] = []
        for row in _rows(data, root):
            fields = {k: v for k, v in row["archetype"].items() if not k.startswith("__")}
            kind = row["archetype"]["__type__"]
            if row["__type__"] == "NodeAnchor":
                nodes[row["id"]] = Node(row["id"], kind, fields, set(row["edges"]))
            else:
                edges.append(Edge(row["id"], kind, row["source"], row["target"], fields))
        return cls(nodes, edges)

    @property
    def counts(self) -> Counter[str]:
        """How many there are of each type."""
        kinds = [node.kind for node in self.nodes.values()] + [edge.kind for edge in self.edges]
        return Counter(kinds)

    def of(self, kind: str) -> list[Node]:
        """The nodes of a type, events in order."""
        found = [node for node in self.nodes.values() if node.kind == kind]
        return sorted(found, key=lambda node: node.fields.get("number", 0))

    def pairs(self, kind: str) -> list[tuple[Node, Node, dict[str, Any]]]:
        """The edges of a type: source, target, fields."""
        return [
            (self.nodes[edge.source], self.nodes[edge.target], edge.fields)
            for edge in self.edges
            if edge.kind == kind
        ]

    def check(self) -> None:
        """Every edge joins two nodes that know it, and no node knows another edge."""
        known = {edge.id for edge in self.edges}
        for edge in self.edges:
            if edge.kind != "Owns":
                assert edge.id in self.nodes[edge.source].edges
            assert edge.id in self.nodes[edge.target].edges
        for node in self.nodes.values():
            assert node.edges <= known


def count_rows(data: Path) -> dict[str, int]:
    """Rows of every table."""
    with closing(sqlite3.connect(data / "graph.db")) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        return {
            name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in tables
            if not name.startswith(("sqlite_", "idx_"))
        }


def _rows(data: Path, root: str) -> list[dict[str, Any]]:
    query = "SELECT data FROM anchors WHERE json_extract(data, '$.root') = ?"
    with closing(sqlite3.connect(data / "graph.db")) as database:
        return [json.loads(text) for (text,) in database.execute(query, (root,))]

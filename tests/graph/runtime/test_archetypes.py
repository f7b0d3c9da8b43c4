"""A changed field changes the row, and a node's edges are read on demand."""

import importlib
import operator
from collections.abc import Callable
from dataclasses import dataclass, fields
from types import SimpleNamespace, UnionType
from typing import Any, get_origin, get_type_hints

import pytest
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.runtime.archetypes import build, encode
from contextrender_bridge.runtime.memory import StoredEdges
from contextrender_bridge.server.runtime import load_app
from jaclang.jac0core.archetype import AccessLevel, Permission

TWO: dict[Any, tuple[Any, Any]] = {
    str: ("a", "b"),
    int: (1, 2),
    bool: (False, True),
    float: (1.5, 2.5),
    bytes: (b"a", b"b"),
    UnionType: (1, "a"),
    list: ([], [1]),
    dict: ({}, {"a": 1}),
}
STORED_CLASSES = [
    ("events", ("Message", "ToolCall", "ToolResult", "ResultSummary")),
    ("session", ("Session", "Branch")),
    ("calls", ("ModelCall",)),
    ("links", ("ShareLink",)),
    ("removal", ("PendingDeletion",)),
    ("edges", ("Reuse",)),
]


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in STORED_CLASSES for name in names]
)
def test_changed_field_changes_the_row(module: str, name: str) -> None:
    load_app(app_dir())
    kind = getattr(importlib.import_module(f"nodes.{module}"), name)
    hints = get_type_hints(kind)
    values_of_field = {
        field.name: TWO[get_origin(hints[field.name]) or hints[field.name]]
        for field in fields(kind)
    }
    archetype, complete = build(
        kind, {field: values[0] for field, values in values_of_field.items()}
    )
    assert complete
    anchor = SimpleNamespace(archetype=archetype, access=Permission())
    before = encode([anchor])
    assert values_of_field
    for field, (old, new) in values_of_field.items():
        setattr(archetype, field, new)
        assert encode([anchor]) != before, field
        setattr(archetype, field, old)
    assert encode([anchor]) == before
    anchor.access.all = AccessLevel.READ
    assert encode([anchor]) != before


@dataclass(frozen=True)
class Edge:
    """A stand-in for an edge."""

    id: int


EDGES = [Edge(1), Edge(2)]
ACCESSES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "list": (list, EDGES),
    "len": (len, 2),
    "copy": (lambda edges: edges.copy(), EDGES),
    "plus": (lambda edges: operator.add(edges, [Edge(3)]), [*EDGES, Edge(3)]),
    "equal": (lambda edges: edges == EDGES, True),
    "after": (lambda edges: operator.add([Edge(3)], edges), [Edge(3), *EDGES]),
    "pop": (lambda edges: edges.pop(), Edge(2)),
}


def unread_edges() -> StoredEdges:
    edges = StoredEdges(lambda: edges.fill(EDGES))
    return edges


@pytest.mark.parametrize("access", ACCESSES)
def test_first_access_reads_edges(access: str) -> None:
    ask, answer = ACCESSES[access]
    assert ask(unread_edges()) == answer


def test_adding_edges_reads_nothing() -> None:
    edges = unread_edges()
    edges.append(Edge(2))
    edges.append(Edge(3))
    assert edges.is_unread
    assert list(edges) == [Edge(1), Edge(2), Edge(3)] and not edges.is_unread


def test_changes_apply_to_stored_edges() -> None:
    edges = unread_edges()
    edges.remove(Edge(1))
    assert list(edges) == [Edge(2)]
    edges = unread_edges()
    edges += [Edge(3)]
    edges.extend([Edge(4)])
    assert list(edges) == [*EDGES, Edge(3), Edge(4)]

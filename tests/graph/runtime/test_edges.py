"""A node's edges say what is stored to whatever is asked of them first."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from graph.runtime.archetypes import StoredEdges


@dataclass(frozen=True)
class Edge:
    """As far as a list of them looks."""

    id: int


STORED = [Edge(1), Edge(2)]
ASKED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "list": (list, STORED),
    "len": (len, 2),
    "copy": (lambda edges: edges.copy(), STORED),
    "plus": (lambda edges: operator.add(edges, [Edge(3)]), [*STORED, Edge(3)]),
    "equal": (lambda edges: edges == STORED, True),
    "after": (lambda edges: operator.add([Edge(3)], edges), [Edge(3), *STORED]),
    "pop": (lambda edges: edges.pop(), Edge(2)),
}


def unread() -> StoredEdges:
    edges = StoredEdges(lambda: edges.fill(STORED))
    return edges


@pytest.mark.parametrize("how", ASKED)
def test_whatever_is_asked_first_reads_them(how: str) -> None:
    ask, answer = ASKED[how]
    assert ask(unread()) == answer


def test_joining_reads_nothing_and_is_kept() -> None:
    edges = unread()
    edges.append(Edge(2))
    edges.append(Edge(3))
    assert edges.waiting
    assert list(edges) == [Edge(1), Edge(2), Edge(3)] and not edges.waiting


def test_what_is_changed_first_changes_what_is_stored() -> None:
    edges = unread()
    edges.remove(Edge(1))
    assert list(edges) == [Edge(2)]
    edges = unread()
    edges += [Edge(3)]
    edges.extend([Edge(4)])
    assert list(edges) == [*STORED, Edge(3), Edge(4)]

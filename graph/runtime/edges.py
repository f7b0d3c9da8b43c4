"""A node's edges, read when they are first looked at.

jaclang 0.16.7 keeps a list at every node. It is appended to by whoever joins the node to another,
which must not cost reading the thousands of edges it may have.
"""

from collections import UserList
from collections.abc import Callable, Iterator
from typing import Any, override

Edge = Any


class StoredEdges(UserList[Edge]):
    """Edges that are in the database, and those joined since, which come last.

    Whatever is asked of it reads them first, but for `append`.
    """

    def __init__(self, read: Callable[[], None]) -> None:
        """`read` calls `fill`, of this node and perhaps of others that were loaded with it."""
        self._read: Callable[[], None] | None = read
        self._known: list[Edge] = []

    @property
    def waiting(self) -> bool:
        """Whether the database has not been asked yet."""
        return self._read is not None

    def fill(self, edges: list[Edge]) -> None:
        """Takes what the database has, once."""
        self._read = None
        known = {edge.id for edge in edges}
        self._known = [*edges, *(edge for edge in self._known if edge.id not in known)]

    @property
    def data(self) -> list[Edge]:
        """Every edge: a plain list."""
        if self._read is not None:
            self._read()
        return self._known

    @data.setter
    def data(self, edges: list[Edge]) -> None:
        self._known = edges

    @override
    def append(self, item: Edge) -> None:
        self._known.append(item)

    @override
    def __iter__(self) -> Iterator[Edge]:
        return iter(self.data)

    # What is made of it is a plain list.

    @override
    def __getitem__(self, i: Any) -> Any:
        return self.data[i]

    @override
    def copy(self) -> list[Edge]:  # type: ignore[override]
        return self.data.copy()

    @override
    def __copy__(self) -> list[Edge]:  # type: ignore[override]
        return self.data.copy()

    @override
    def __add__(self, other: Any) -> list[Edge]:  # type: ignore[override]
        return self.data + list(other)

    @override
    def __radd__(self, other: Any) -> list[Edge]:  # type: ignore[override]
        return list(other) + self.data

    @override
    def __mul__(self, n: int) -> list[Edge]:  # type: ignore[override]
        return self.data * n

    @override
    def __rmul__(self, n: int) -> list[Edge]:  # type: ignore[override]
        return self.data * n

"""A node's edges, read when they are first looked at.

jaclang 0.16.7 keeps a list at every node. It is appended to by whoever joins the node to another,
which must not cost reading the thousands of edges it may have.
"""

from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

Edge = Any


class StoredEdges(list[Edge]):
    """Edges that are in the database, and those joined since, which come last."""

    def __init__(self, read: Callable[[], None]) -> None:
        """`read` calls `fill`, of this node and perhaps of others that were loaded with it."""
        super().__init__()
        self._read: Callable[[], None] | None = read

    @property
    def waiting(self) -> bool:
        """Whether the database has not been asked yet."""
        return self._read is not None

    def fill(self, edges: list[Edge]) -> None:
        """Takes what the database has, once."""
        self._read = None
        known = {edge.id for edge in edges}
        self[:] = [*edges, *(edge for edge in self if edge.id not in known)]

    def _now(self) -> None:
        if self._read is not None:
            self._read()

    def __iter__(self) -> Iterator[Edge]:
        self._now()
        return super().__iter__()

    def __len__(self) -> int:
        self._now()
        return super().__len__()

    def __contains__(self, edge: object) -> bool:
        self._now()
        return super().__contains__(edge)

    def __getitem__(self, index: Any) -> Any:
        self._now()
        return super().__getitem__(index)

    def pop(self, index: SupportsIndex = -1) -> Edge:
        """Removes one."""
        self._now()
        return super().pop(index)

    def remove(self, edge: Edge) -> None:
        """Removes one."""
        self._now()
        super().remove(edge)

"""What one request changes, as rows.

It is told by comparing rows with those that were read, byte by byte: no hash can miss a field.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from jaclang.jac0core.archetype import EdgeAnchor, NodeAnchor
from jaclang.jac0core.constructs import Root

from contextrender_bridge.base.errors import ContextRenderError, Damaged
from contextrender_bridge.runtime.archetypes import encode, encode_edges, number_of
from contextrender_bridge.store import rows
from contextrender_bridge.store.kinds import TypeNumbers
from contextrender_bridge.store.writes import End, WriteBatch

LISTED_BY: Final = "created_at"
"""A node with this field can be listed by it, as it was when the node was made."""


class Forbidden(ContextRenderError):
    """Something of another user's would be changed."""

    code = "forbidden"
    status = 403


@dataclass(slots=True)
class StoredNode:
    """A node's row as it is stored, not compressed."""

    rev: int
    row: bytes


StoredEdge = tuple[End, bytes | None]


@dataclass(slots=True)
class CommittedRows:
    """Rows as they are once a unit is written."""

    nodes: dict[UUID, StoredNode] = field(default_factory=dict)
    edges: dict[UUID, StoredEdge] = field(default_factory=dict)


class Changes:
    """The rows that a request read, and what it takes away.

    `removed` are nodes with the revision that was read, `parted` edges, `unreadable` nodes that
    stay as they are, `fences` nodes that must be as they were read, `cut` nodes whose edges go
    unseen, `wiped` nodes that go so themselves.
    """

    def __init__(self, owner: UUID | None, kinds: TypeNumbers) -> None:
        """Of one user; without one, of roots alone."""
        self._owner = owner
        self._kinds = kinds
        self.nodes: dict[UUID, StoredNode] = {}
        self.edges: dict[UUID, StoredEdge] = {}
        self.removed: dict[UUID, int] = {}
        self.parted: dict[UUID, End] = {}
        self.unreadable: dict[UUID, int] = {}
        self.fences: set[UUID] = set()
        self.cut: list[UUID] = []
        self.wiped: list[UUID] = []

    def take_away(self, id: UUID) -> None:
        """The row of a node or an edge goes with the next unit, if there is one."""
        if id in self.nodes:
            self.removed[id] = self.nodes.pop(id).rev
        elif id in self.unreadable:
            self.removed[id] = self.unreadable.pop(id)
        if id in self.edges:
            self.parted[id] = self.edges.pop(id)[0]

    def collect(self, anchors: Iterable[Any]) -> tuple[WriteBatch, CommittedRows] | None:
        """What to write, and the rows as they will be then; None where there is nothing. Raises
        Forbidden and Damaged."""
        unit, written = WriteBatch(), CommittedRows()
        kept = [one for one in anchors if vars(one).get("persistent") and one.is_populated()]
        self._collect_nodes(unit, [one for one in kept if isinstance(one, NodeAnchor)], written)
        self._collect_edges(unit, [one for one in kept if isinstance(one, EdgeAnchor)], written)
        taken_away = self.removed or self.parted or self.cut or self.wiped
        if not (taken_away or written.nodes or written.edges):
            return None
        owner = self._owner
        unit.remove += [(owner or id, id, rev) for id, rev in self.removed.items()]
        unit.part += self.parted.values()
        for some, taken in ((self.cut, unit.cut), (self.wiped, unit.wipe)):
            if some and owner is not None:
                taken.append((owner, tuple(some)))
        for id in self.fences & self.nodes.keys() - written.nodes.keys():
            assert owner is not None
            held = self.nodes[id]
            unit.fence.append((owner, id, held.rev))
            written.nodes[id] = StoredNode(held.rev + 1, held.row)
        return unit, written

    def done(self, written: CommittedRows) -> None:
        """The unit is written."""
        self.nodes |= written.nodes
        self.edges |= written.edges
        for id in self.wiped:
            self.nodes.pop(id, None)
        self.removed.clear()
        self.parted.clear()
        self.cut.clear()
        self.wiped.clear()

    def _collect_nodes(
        self, unit: WriteBatch, anchors: Iterable[Any], written: CommittedRows
    ) -> None:
        nodes = [anchor for anchor in anchors if self._is_kept(anchor)]
        fresh: list[tuple[Any, bytes]] = []
        for anchor, row in zip(nodes, encode(nodes), strict=True):
            if anchor.id not in self.nodes or self.nodes[anchor.id].row != row:
                fresh.append((anchor, row))
        packed = rows.pack_all([row for _, row in fresh])
        for (anchor, row), data in zip(fresh, packed, strict=True):
            id, archetype = anchor.id, anchor.archetype
            owner = id if isinstance(archetype, Root) else anchor.root
            self._check(owner)
            if (known := self.nodes.get(id)) is None:
                cls: type = type(archetype)
                listed = vars(archetype).get(LISTED_BY)
                unit.insert.append((owner, id, number_of(self._kinds, cls), listed, data))
            else:
                unit.update.append((data, owner, id, known.rev))
            written.nodes[id] = StoredNode(1 if known is None else known.rev + 1, row)

    def _is_kept(self, anchor: Any) -> bool:
        """Whether it may have a row of its own to write. Raises Damaged."""
        known = anchor.id in self.nodes
        if isinstance(anchor.archetype, Root):
            return not known
        if not known and not anchor.edges:
            return False  # what nothing leads to is garbage, not data
        if anchor.id in self.unreadable:
            raise Damaged(
                "a part of this session cannot be read, and is not written over: "
                "`contextrender check --repair` puts it aside, and the session goes on"
            )
        return True

    def _collect_edges(
        self, unit: WriteBatch, anchors: Sequence[Any], written: CommittedRows
    ) -> None:
        fresh: list[tuple[Any, bytes | None]] = []
        for anchor, row in zip(anchors, encode_edges(anchors), strict=True):
            if anchor.id not in self.edges or self.edges[anchor.id][1] != row:
                fresh.append((anchor, row))
        packed = iter(rows.pack_all([row for _, row in fresh if row is not None]))
        for anchor, row in fresh:
            self._check(anchor.root)
            cls: type = type(anchor.archetype)
            kind = number_of(self._kinds, cls)
            end = (anchor.root, anchor.source.id, kind, anchor.target.id)
            unit.join.append((*end, None if row is None else next(packed)))
            written.edges[anchor.id] = (end, row)

    def _check(self, owner: UUID) -> None:
        if self._owner is not None and owner != self._owner:
            raise Forbidden("This would change data of another user.")

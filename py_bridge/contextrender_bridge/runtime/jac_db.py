"""The store as jaclang 0.16.7's `PersistentMemory`: for `jac db`, `jac dot` and `jac enter`.

These commands can read every user's graph. The server does not use this module.
Long because jaclang's interface is.
"""

import logging
from collections.abc import Generator
from itertools import chain
from typing import Any, Final, NamedTuple
from uuid import UUID

from jaclang.jac0core.archetype import Anchor
from jaclang.jac0core.constructs import Root
from jaclang.runtimelib.changeset import ApplyReport, ChangeSet
from jaclang.runtimelib.memory import PersistentMemory
from jaclang.runtimelib.serializer import Serializer

from contextrender_bridge.runtime.archetypes import read_problem
from contextrender_bridge.runtime.memory import SYSTEM_ROOT, RequestMemory
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import Store
from contextrender_bridge.store.schema import VERSION

QUARANTINE: Final = "SELECT id, kind, error, quarantined_at, data FROM quarantine"


class QuarantinedRow(NamedTuple):
    """A row of `QUARANTINE`."""

    id: str
    kind: int
    error: str
    quarantined_at: str
    data: bytes


def _is_relevant(record: logging.LogRecord) -> bool:
    """Return False for jaclang's warning about a hash that is not used here, otherwise True."""
    return not record.getMessage().startswith("Falling back to str() for builtins.bytes")


class OperatorMemory(PersistentMemory):
    """The graphs of all users, each with a RequestMemory like in the user's own requests."""

    def __init__(self, store: Store) -> None:
        """Open no user's graph yet, and filter jaclang's warnings about hashes."""
        # jaclang hashes bytes by their `repr` and warns each time. Here rows are compared instead.
        logging.getLogger(Serializer.__module__).addFilter(_is_relevant)
        self._store = store
        self._by_owner: dict[UUID, RequestMemory] = {}

    # Nodes and edges.

    def is_available(self) -> bool:
        """Return True: the store was opened before."""
        return True

    def get(self, id: UUID) -> Any:
        """Return the anchor of a node of any user, or of a loaded edge; None if there is none."""
        for memory in self._by_owner.values():
            if (anchor := memory.__mem__.get(id)) is not None:
                return anchor
        if id == SYSTEM_ROOT:
            return None
        owners = self._store.read("SELECT owner FROM nodes WHERE id = ?", (id,))
        return self._of(self._store.uuid(owners[0][0])).get(id) if owners else None

    def put(self, anchor: Anchor) -> None:
        """Add an anchor to the memory of its user. `apply` writes it."""
        self._of(anchor.root or anchor.id).put(anchor)

    def delete(self, id: UUID) -> None:
        """Do nothing, because `apply` deletes."""

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def has(self, id: UUID) -> bool:
        """Return whether `get` finds the id."""
        return self.get(id) is not None

    def query(self, filter: Any = None) -> Generator[Anchor, None, None]:
        """Yield the anchors that were loaded so far."""
        for memory in self._by_owner.values():
            yield from (a for a in memory.__mem__.values() if filter is None or filter(a))

    def get_roots(self) -> Generator[Root, None, None]:
        """Yield the root of each user."""
        for (owner,) in self._store.read("SELECT DISTINCT owner FROM nodes"):
            root = self._store.uuid(owner)
            # The memory of a user always has the user's root, under the user's id.
            yield self._of(root).__mem__[root].archetype

    def find(self, ids: Any, filter: Any = None) -> Generator[Anchor, None, None]:
        """Yield the anchors of the ids that exist."""
        requested = [ids] if isinstance(ids, UUID) else ids
        for id in requested:
            if (anchor := self.get(id)) is not None and (filter is None or filter(anchor)):
                yield anchor

    def find_one(self, ids: Any, filter: Any = None) -> Any:
        """Return the first anchor that `find` yields, or None."""
        return next(self.find(ids, filter), None)

    def get_mem(self) -> dict[UUID, Anchor]:
        """Return the anchors that were loaded so far, by id."""
        return {anchor.id: anchor for anchor in self.query()}

    def commit(self, anchor: object = None) -> None:
        """Do nothing, because `apply` writes."""

    def apply(self, changeset: ChangeSet) -> ApplyReport:
        """Write the changed rows, one user after another. Raise WriteConflict after a conflict.

        Changes of the system's root are ignored, because it is not stored.
        """
        report = ApplyReport()
        for intent in chain.from_iterable(changeset.staged()):
            anchor = intent.anchor
            report.applied.append(anchor.id)
            if anchor.id == SYSTEM_ROOT or anchor.root == SYSTEM_ROOT:
                continue
            # Collect the changes in the memory of the user. A root is its own owner.
            memory = self._of(anchor.root or anchor.id)
            if intent.is_delete():
                memory.delete(anchor.id)
            else:
                memory.put(anchor)
        for memory in self._by_owner.values():
            memory.flush()
        return report

    # For operators.

    def inspect_summary(self) -> dict[str, Any]:
        """Return the number of nodes and edges, stored and in quarantine, by type."""
        count = "SELECT kind, count(*) FROM {} GROUP BY kind"
        live = self._counts(count.format("nodes")) + self._counts(count.format("edges"))
        quarantine = self._counts(count.format("quarantine"))
        return {
            "format_version": str(VERSION),
            "anchors_total": sum(number for _, number in live),
            "anchors_by_type": sorted(live, key=lambda row: -row[1]),
            "quarantine_total": sum(number for _, number in quarantine),
            "quarantine_by_type": quarantine,
            "aliases_total": 0,
            "location": self._store.place,
        }

    def list_quarantined(self, limit: int = 50) -> list[dict[str, str]]:
        """Return the newest nodes in quarantine, newest first."""
        query = f"{QUARANTINE} ORDER BY quarantined_at DESC LIMIT ?"
        return [self._summary(QuarantinedRow(*row)) for row in self._store.read(query, (limit,))]

    def show_quarantined(self, id_prefix: str) -> dict[str, Any] | None:
        """Return the node in quarantine whose id is or begins with `id_prefix`, with its fields.

        Return None if there is no such node, and a dict with `error` if there are several.
        """
        matches = self._quarantined(id_prefix)
        if len(matches) != 1:
            return {"error": "several begin so"} if matches else None
        # Decode the row. If it is damaged, show the reason in place of the fields.
        row = matches[0]
        module, name = self._store.kinds.name(row.kind)
        try:
            fields = rows.read_fields(bytes(row.data))
        except ValueError as damage:
            fields = {"damaged": str(damage)}
        return {
            **self._summary(row),
            "type": "NodeAnchor",
            "arch_module": module,
            "arch_type": name,
            "from_format_version": VERSION,
            "data": {
                key: str(value) if type(value) is bytes else value for key, value in fields.items()
            },
        }

    def recover_one(self, id_prefix: str) -> tuple[bool, str]:
        """Move a node out of quarantine if it can be read; return whether it was, and a message.

        The node is named by its id or the start of its id.
        """
        matches = self._quarantined(id_prefix)
        if len(matches) != 1:
            return False, "several begin so" if matches else "nothing begins so"
        return self._put_back(matches[0])

    def recover_all(self) -> tuple[int, list[tuple[str, str]]]:
        """Move every node that can be read now out of quarantine.

        Return the number of these nodes, and the id and problem of each other node.
        """
        quarantined = [QuarantinedRow(*row) for row in self._store.read(QUARANTINE)]
        attempts = [(row.id, *self._put_back(row)) for row in quarantined]
        failures = [(id, problem) for id, recovered, problem in attempts if not recovered]
        return len(attempts) - len(failures), failures

    def list_aliases(self) -> list[dict[str, str]]:
        """Return an empty list, because there are no aliases of types."""
        return []

    def add_alias(self, old_name: str, new_name: str) -> None:
        """Raise SystemExit, because there are no aliases of types."""
        raise SystemExit("Types keep their names here: there are no aliases.")

    def remove_alias(self, old_name: str) -> bool:
        """Return False, because there are no aliases of types."""
        return False

    def quarantine_dangling(self, missing_id: UUID, referrer_id: UUID | None, kind: str) -> None:
        """Do nothing: reading must not write, and `contextrender check` finds dangling edges."""

    def is_recoverable_quarantine(self, id: UUID) -> bool:
        """Return True, so that jaclang keeps an edge to a node that cannot be loaded."""
        return True

    def fsck(self, repair: bool = False) -> dict[str, Any]:
        """Raise SystemExit, because `contextrender check` checks the graph."""
        raise SystemExit("Use `contextrender check`, which knows what there must be.")

    def _of(self, owner: UUID) -> RequestMemory:
        """Return the memory of a user's graph."""
        if owner not in self._by_owner:
            self._by_owner[owner] = RequestMemory(self._store, owner)
        return self._by_owner[owner]

    def _counts(self, query: str) -> list[tuple[str, int]]:
        """Run a query that returns the number of rows per type. Return them by the types' names."""
        counts = self._store.read(query)
        return [(self._store.kinds.name(kind)[1], count) for kind, count in counts]

    def _quarantined(self, prefix: str) -> list[QuarantinedRow]:
        """Return the row with this id; if there is none, all rows whose ids begin with `prefix`."""
        exact = self._store.read(f"{QUARANTINE} WHERE id = ?", (prefix,))
        similar = exact or self._store.read(f"{QUARANTINE} WHERE id LIKE ?", (f"{prefix}%",))
        return [QuarantinedRow(*row) for row in similar]

    def _summary(self, row: QuarantinedRow) -> dict[str, str]:
        """Return a row in quarantine in the form that jaclang expects."""
        return {
            "id": row.id,
            "arch": ".".join(self._store.kinds.name(row.kind)),
            "fingerprint": "",
            "error": row.error,
            "quarantined_at": row.quarantined_at,
        }

    def _put_back(self, row: QuarantinedRow) -> tuple[bool, str]:
        """Move a node out of quarantine if it can be read; return whether it was, and a message."""
        if problem := read_problem(self._store.kinds.name(row.kind), bytes(row.data)):
            return False, problem
        insert = (
            "INSERT INTO nodes (owner, id, rev, kind, listed, data) "
            "SELECT owner, ?, rev, kind, listed, data FROM quarantine WHERE id = ?"
        )
        delete = "DELETE FROM quarantine WHERE id = ?"
        with self._store.transaction() as cursor:
            self._store.run(cursor, (insert, [(UUID(row.id), row.id)]), (delete, [(row.id,)]))
        return True, "recovered"

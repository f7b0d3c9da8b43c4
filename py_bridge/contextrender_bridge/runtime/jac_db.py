"""The store as jaclang 0.16.7's `PersistentMemory`: for `jac db`, `jac dot` and `jac enter`.

They see every user's graph, as anyone who may read the database. The server does not use this.
Long because jaclang's interface is.
"""

import logging
from collections.abc import Generator
from typing import Any, Final
from uuid import UUID

from jaclang.jac0core.archetype import Anchor
from jaclang.jac0core.constructs import Root
from jaclang.runtimelib.changeset import ApplyReport, ChangeSet
from jaclang.runtimelib.memory import PersistentMemory
from jaclang.runtimelib.serializer import Serializer

from contextrender_bridge.runtime.archetypes import unreadable
from contextrender_bridge.runtime.memory import SYSTEM_ROOT, RequestMemory
from contextrender_bridge.store import rows
from contextrender_bridge.store.base import Store
from contextrender_bridge.store.schema import VERSION

ASIDE: Final = "SELECT id, kind, error, quarantined_at, owner, data FROM quarantine"


def _is_news(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Falling back to str() for builtins.bytes")


class OperatorMemory(PersistentMemory):
    """Every user's graph, each read as that user's own requests read it."""

    def __init__(self, store: Store) -> None:
        """Nothing is read before it is asked for."""
        # jaclang hashes bytes by their `repr` and warns of each; here rows are compared.
        logging.getLogger(Serializer.__module__).addFilter(_is_news)
        self._store = store
        self._by_owner: dict[UUID, RequestMemory] = {}

    # Nodes and edges.

    def is_available(self) -> bool:
        """It was opened."""
        return True

    def get(self, id: UUID) -> Any:
        """The node of that id, whoever's it is; or an edge of a node that was looked at."""
        for memory in self._by_owner.values():
            if (known := memory.__mem__.get(id)) is not None:
                return known
        if id == SYSTEM_ROOT:
            return None
        found = self._store.read("SELECT owner FROM nodes WHERE id = ?", (id,))
        return self._of(self._store.uuid(found[0][0])).get(id) if found else None

    def put(self, anchor: Anchor) -> None:
        """Keep it for `apply`."""
        self._of(anchor.root or anchor.id).put(anchor)

    def delete(self, id: UUID) -> None:
        """It goes with `apply`."""

    def close(self) -> None:
        """Closes the store."""
        self._store.close()

    def has(self, id: UUID) -> bool:
        """Whether `get` finds it."""
        return self.get(id) is not None

    def query(self, filter: Any = None) -> Generator[Anchor, None, None]:
        """What was looked at so far."""
        for memory in self._by_owner.values():
            yield from (a for a in memory.__mem__.values() if filter is None or filter(a))

    def get_roots(self) -> Generator[Root, None, None]:
        """Every user's."""
        for (owner,) in self._store.read("SELECT DISTINCT owner FROM nodes"):
            root = self._store.uuid(owner)
            yield self._of(root).__mem__[root].archetype

    def find(self, ids: Any, filter: Any = None) -> Generator[Anchor, None, None]:
        """Those of some ids that are there."""
        for id in [ids] if isinstance(ids, UUID) else ids:
            if (found := self.get(id)) is not None and (filter is None or filter(found)):
                yield found

    def find_one(self, ids: Any, filter: Any = None) -> Any:
        """The first of them."""
        return next(self.find(ids, filter), None)

    def get_mem(self) -> dict[UUID, Anchor]:
        """What was looked at so far."""
        return {anchor.id: anchor for anchor in self.query()}

    def commit(self, anchor: object = None) -> None:
        """`apply` writes."""

    def apply(self, changeset: ChangeSet) -> ApplyReport:
        """Writes what differs from what is stored, one user after another. Raises Raced."""
        report = ApplyReport()
        for intent in [intent for stage in changeset.staged() for intent in stage]:
            anchor = intent.anchor
            report.applied.append(anchor.id)
            if anchor.id == SYSTEM_ROOT or anchor.root == SYSTEM_ROOT:
                continue
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
        """How much there is of what."""
        count = "SELECT kind, count(*) FROM {} GROUP BY kind"
        live = self._counts(count.format("nodes")) + self._counts(count.format("edges"))
        aside = self._counts(count.format("quarantine"))
        return {
            "format_version": str(VERSION),
            "anchors_total": sum(number for _, number in live),
            "anchors_by_type": sorted(live, key=lambda row: -row[1]),
            "quarantine_total": sum(number for _, number in aside),
            "quarantine_by_type": aside,
            "aliases_total": 0,
            "location": self._store.place,
        }

    def list_quarantined(self, limit: int = 50) -> list[dict[str, str]]:
        """What was put aside, newest first."""
        order = f"{ASIDE} ORDER BY quarantined_at DESC LIMIT ?"
        return [self._told(row) for row in self._store.read(order, (limit,))]

    def show_quarantined(self, id_prefix: str) -> dict[str, Any] | None:
        """One of them by its id or how that begins, with its fields."""
        found = self._aside(id_prefix)
        if len(found) != 1:
            return {"error": "several begin so"} if found else None
        module, name = self._store.kinds.name(found[0][1])
        try:
            fields = rows.parse(rows.unpack(bytes(found[0][5])))[0]
        except ValueError as damage:
            fields = {"damaged": str(damage)}
        told = self._told(found[0])
        return {
            **told,
            "type": "NodeAnchor",
            "arch_module": module,
            "arch_type": name,
            "from_format_version": VERSION,
            "data": {
                key: str(value) if type(value) is bytes else value for key, value in fields.items()
            },
        }

    def recover_one(self, id_prefix: str) -> tuple[bool, str]:
        """Puts it back, if it loads now."""
        found = self._aside(id_prefix)
        if len(found) != 1:
            return False, "several begin so" if found else "nothing begins so"
        return self._put_back(found[0])

    def recover_all(self) -> tuple[int, list[tuple[str, str]]]:
        """How many went back, and why the others did not."""
        tried = [(row[0], *self._put_back(row)) for row in self._store.read(ASIDE)]
        return sum(done for _, done, _ in tried), [(id, why) for id, done, why in tried if not done]

    def list_aliases(self) -> list[dict[str, str]]:
        """Types keep their names."""
        return []

    def add_alias(self, old_name: str, new_name: str) -> None:
        """Refused."""
        raise SystemExit("Types keep their names here: there are no aliases.")

    def remove_alias(self, old_name: str) -> bool:
        """There was none."""
        return False

    def quarantine_dangling(self, missing_id: UUID, referrer_id: UUID | None, kind: str) -> None:
        """`contextrender check` finds them; nothing is written while the graph is walked."""

    def is_recoverable_quarantine(self, id: UUID) -> bool:
        """An end that does not load is left alone."""
        return True

    def fsck(self, repair: bool = False) -> dict[str, Any]:
        """Refused."""
        raise SystemExit("Use `contextrender check`, which knows what there must be.")

    def _of(self, owner: UUID) -> RequestMemory:
        if owner not in self._by_owner:
            self._by_owner[owner] = RequestMemory(self._store, owner)
        return self._by_owner[owner]

    def _counts(self, query: str) -> list[tuple[str, int]]:
        return [(self._store.kinds.name(kind)[1], n) for kind, n in self._store.read(query)]

    def _aside(self, prefix: str) -> list[Any]:
        exact = self._store.read(f"{ASIDE} WHERE id = ?", (prefix,))
        return exact or self._store.read(f"{ASIDE} WHERE id LIKE ?", (f"{prefix}%",))

    def _told(self, row: Any) -> dict[str, str]:
        name = ".".join(self._store.kinds.name(row[1]))
        return {
            "id": row[0],
            "arch": name,
            "fingerprint": "",
            "error": row[2],
            "quarantined_at": row[3],
        }

    def _put_back(self, row: Any) -> tuple[bool, str]:
        if problem := unreadable(self._store.kinds.name(row[1]), bytes(row[5])):
            return False, problem
        back = (
            "INSERT INTO nodes (owner, id, rev, kind, listed, data) "
            "SELECT owner, ?, rev, kind, listed, data FROM quarantine WHERE id = ?"
        )
        with self._store.transaction() as cursor:
            gone = "DELETE FROM quarantine WHERE id = ?"
            self._store.run(cursor, (back, [(UUID(row[0]), row[0])]), (gone, [(row[0],)]))
        return True, "recovered"

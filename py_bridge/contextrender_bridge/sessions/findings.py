"""What can be wrong with a store, and what of it `check --repair` puts right."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal
from uuid import UUID

from contextrender_bridge.sessions.ids import JOINS
from contextrender_bridge.store.base import Store
from contextrender_bridge.store.writes import WriteBatch

Kind = Literal["unreadable", "missing", "corrupted", "dangling", "orphan", "set aside"]
Edge = tuple[UUID, int, UUID]
"""Source, the number of its type, and target."""
FOLLOW: Final = frozenset({"Reuse", *JOINS})
"""Edges that texts and numbers give: another one goes."""
HOLD: Final = frozenset({"Reuse", "ShowsExcerpt", "Restores", "Misses"})
"""Edges that hold something, so that they cannot be written again without it."""
LEAD_BACK: Final = frozenset({"Owns", "HasBranch", "HasFirstEvent"})
"""Edges by which what is lost at one end is rebuilt when it is next used."""

ASIDE: Final = (
    "INSERT INTO quarantine (id, owner, rev, kind, listed, data, error, quarantined_at) "
    "SELECT ?, owner, rev, kind, listed, data, ?, ? FROM nodes WHERE owner = ? AND id = ? "
    "ON CONFLICT (id) DO UPDATE SET data = excluded.data, error = excluded.error"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `session` is the key of the session that it is of, where that is
    known, and `row` is what the edge should hold."""

    kind: Kind
    told: str
    owner: UUID
    session: str = ""
    node: UUID | None = None
    edge: Edge | None = None
    row: bytes | None = None


def repair(store: Store, finding: Finding) -> bool:
    """Puts aside what cannot be read or belongs to nothing, removes edges that lead nowhere, and
    writes edges anew that follow from texts and from what nodes tell.

    Whether that was possible: what is lost stays lost, and the session goes on without it.
    """
    if finding.kind in ("unreadable", "orphan") and finding.node is not None:
        put_aside(store, finding.owner, finding.node, finding.told)
        return True
    if finding.edge is None:
        return False
    source, kind, target = finding.edge
    name = store.kinds.name(kind)[1]
    unread = finding.kind == "unreadable" and name not in HOLD
    if finding.kind == "missing" or finding.row is not None or unread:
        store.write(WriteBatch(join=[(finding.owner, source, kind, target, finding.row)]))
        return True
    follows = finding.kind == "corrupted" and name in FOLLOW
    is_dangling = finding.kind == "dangling" and name not in LEAD_BACK
    if is_dangling or follows:
        store.write(WriteBatch(part=[(finding.owner, source, kind, target)]))
    return is_dangling or follows


def put_aside(store: Store, owner: UUID, id: UUID, error: str) -> None:
    """Moves a node's row into quarantine; its edges stay."""
    now = datetime.now(UTC).isoformat()
    with store.transaction() as cursor:
        gone = "DELETE FROM nodes WHERE owner = ? AND id = ?"
        aside = (ASIDE, [(str(id), error, now, owner, id)])
        store.run(cursor, aside, (gone, [(owner, id)]))

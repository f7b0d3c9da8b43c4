"""What can be wrong with a store, and what of it `check --repair` puts right."""

from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from graph.store.base import Store
from graph.store.quarantine import put_aside
from graph.store.writes import PART, Unit

Kind = Literal["unreadable", "lost", "changed", "loose", "orphan"]
LEAD_BACK: Final = frozenset({"Owns", "HasBranch", "Begins"})
"""Edges by which what is lost at one end is rebuilt when it is next used."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `session` is the key of the session that it is of, where that is
    known, `edge` the edge's source, type and target, and `row` what that edge should hold."""

    kind: Kind
    told: str
    owner: UUID
    session: str = ""
    node: UUID | None = None
    edge: tuple[UUID, int, UUID] | None = None
    row: bytes | None = None


def repair(store: Store, finding: Finding) -> bool:
    """Puts aside what cannot be read or belongs to nothing, removes edges that lead nowhere, and
    writes edges that follow from texts anew.

    Whether that was possible: what is lost stays lost, and the session goes on without it.
    """
    if finding.kind in ("unreadable", "orphan") and finding.node is not None:
        put_aside(store, finding.owner, finding.node, finding.told)
        return True
    if finding.edge is None:
        return False
    source, kind, target = finding.edge
    if finding.row is not None:
        store.write(Unit(join=[(finding.owner, source, kind, target, finding.row)]))
        return True
    follows = store.kinds.name(kind)[1] == "Reuse" and finding.kind == "changed"
    loose = finding.kind == "loose" and store.kinds.name(kind)[1] not in LEAD_BACK
    if loose or follows:
        with store.transaction() as cursor:
            cursor.execute(store.query(PART), store.row((finding.owner, source, kind, target)))
    return loose or follows

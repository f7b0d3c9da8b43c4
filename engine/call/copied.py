"""Sums over imported sessions: a call that is in several copies counts once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

from engine.call.ledger import Row, Sums, read_rows


@dataclass(slots=True, frozen=True)
class Spent:
    """A session's sums (`engine.call.ledger`), made at `created_at`.

    One that was imported has the `created_at` of the first session it is a copy of as its `origin`,
    and the rows that came with it are `copied`.
    """

    rows: Sequence[Row]
    created_at: float = 0.0
    origin: float = 0.0
    copied: Sequence[Row] = ()

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """From a session's stored fields, of before there were copies, too."""
        return cls(
            fields.get("spent", ()),
            fields.get("created_at", 0.0),
            fields.get("origin", 0.0),
            fields.get("copied", ()),
        )


def counted_once(sessions: Iterable[Spent]) -> Iterator[Sequence[Row]]:
    """The rows to add up: those copied are the original's or, without one, its oldest copy's."""
    found = sorted(sessions, key=attrgetter("created_at"))
    told = {one.created_at for one in found}
    for one in found:
        if one.origin and one.origin in told:
            yield _without(one.rows, one.copied)
        else:
            told.add(one.origin)
            yield one.rows


def _without(rows: Iterable[Row], copied: Iterable[Row]) -> list[Row]:
    """What of each row is more than was copied."""
    known = dict(read_rows(copied))
    left = ((key, sums.minus(known.get(key, Sums()))) for key, sums in read_rows(rows))
    return [[*key, *sums.numbers] for key, sums in left if any(sums.numbers)]

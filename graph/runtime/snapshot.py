"""What a store holds at one moment, for as long as it takes to read it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from sqlalchemy import Connection

from graph.runtime.kinds import Kinds
from graph.runtime.store import Store


class Read(Protocol):
    """As `Store.read`."""

    def __call__(self, query: str, params: Any = ..., /) -> list[Any]:
        """The rows."""


@dataclass(frozen=True)
class Snapshot:
    """What copying needs of a store; `tables` opens SQLAlchemy's way to it, for accounts."""

    kinds: Kinds
    uuid: Callable[[Any], UUID]
    read: Read
    tables: Callable[[], AbstractContextManager[Connection]]


def as_it_is(store: Store) -> Snapshot:
    """Of a store that nobody writes to."""
    return Snapshot(store.kinds, store.uuid, store.read, store.engine().connect)

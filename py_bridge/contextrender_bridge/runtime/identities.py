"""jac-scale 0.2.31's accounts, in the tables of our store. It reads and writes them by SQLAlchemy,
which nothing else here imports."""

from typing import Any, Final

from jac_scale.identity_storage import SqliteIdentityStorage
from sqlalchemy import create_engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import IntegrityError
from sqlalchemy.pool import NullPool

from contextrender_bridge.store.base import Store

DIALECTS: Final = {"sqlite": "sqlite://", "postgresql": "postgresql+psycopg://"}


class NameTaken(Exception):
    """Somebody else was given that name a moment before."""


class Identities(SqliteIdentityStorage):
    """As it comes, over a store of either kind. Raises StoreUnavailable as the store does."""

    def __init__(self, store: Store) -> None:
        """Opens nothing before it is asked."""
        super().__init__(db_path=":memory:")
        address = DIALECTS[store.system]
        self._engine = create_engine(address, creator=store.connect, poolclass=NullPool)

        def tell(failed: ExceptionContext) -> None:
            if isinstance(failed.sqlalchemy_exception, IntegrityError):
                raise NameTaken from failed.original_exception
            if isinstance(failed.original_exception, Exception):
                raise store.told(failed.original_exception) from failed.original_exception

        event.listen(self._engine, "handle_error", tell)

    def ensure_indexes(self) -> None:
        """The store has made its tables."""

    def _store_user(self, user_doc: dict[str, Any]) -> None:
        """The original's `INSERT OR IGNORE` is SQLite's alone, and hides that a name is taken."""
        names = [
            {"value_normalized": each["value_normalized"], "user_id": user_doc["user_id"]}
            for each in user_doc["identities"]
        ]
        with self._engine.begin() as connection:
            connection.execute(self._table.insert().values(**user_doc))
            connection.execute(self._identity_lookups.insert(), names)

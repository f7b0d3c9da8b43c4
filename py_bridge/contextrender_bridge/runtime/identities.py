"""The accounts of jac-scale 0.2.31, in the tables of the store.

jac-scale reads and writes the accounts by SQLAlchemy, which no other module imports.
"""

from typing import Any, Final

from jac_scale.identity_storage import SqliteIdentityStorage
from sqlalchemy import create_engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import IntegrityError
from sqlalchemy.pool import NullPool

from contextrender_bridge.store.base import Store

DIALECTS: Final = {"sqlite": "sqlite://", "postgresql": "postgresql+psycopg://"}


class NameTaken(Exception):
    """Raised when another request has just given the name to another user."""


class Identities(SqliteIdentityStorage):
    """The accounts of jac-scale in a store. Methods raise StoreUnavailable if the store fails."""

    def __init__(self, store: Store) -> None:
        """Create the SQLAlchemy engine for the store. It opens connections when they are needed."""
        super().__init__(db_path=":memory:")  # It makes an engine, which the next lines replace.
        address = DIALECTS[store.system]
        self._engine = create_engine(address, creator=store.connect, poolclass=NullPool)

        def raise_store_error(failed: ExceptionContext) -> None:
            """Raise the store's error for an error of SQLAlchemy."""
            if isinstance(failed.sqlalchemy_exception, IntegrityError):
                raise NameTaken from failed.original_exception
            if isinstance(failed.original_exception, Exception):
                raise store.error_for(failed.original_exception) from failed.original_exception

        event.listen(self._engine, "handle_error", raise_store_error)

    def ensure_indexes(self) -> None:
        """Do nothing, because the store has created the tables with their indexes."""

    def _store_user(self, user_doc: dict[str, Any]) -> None:
        """Insert a user. Raise NameTaken if one of the names exists.

        jac-scale's own `INSERT OR IGNORE` exists only in SQLite, and hides that a name is taken.
        """
        names = [
            {"value_normalized": identity["value_normalized"], "user_id": user_doc["user_id"]}
            for identity in user_doc["identities"]
        ]
        with self._engine.begin() as connection:
            connection.execute(self._table.insert().values(**user_doc))
            connection.execute(self._identity_lookups.insert(), names)

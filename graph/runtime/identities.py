"""jac-scale 0.2.31's accounts, in the tables of our store."""

from contextlib import suppress
from typing import Any, Final

from jac_scale.identity_storage import SqliteIdentityStorage
from sqlalchemy import Engine
from sqlalchemy.exc import DatabaseError

TABLES: Final = 3


class Identities(SqliteIdentityStorage):
    """As it comes, over an engine of any database that SQLAlchemy knows."""

    def __init__(self, engine: Engine) -> None:
        """Makes its tables unless they are there."""
        super().__init__(db_path=":memory:")  # it would open a file of its own
        self._engine.dispose()
        self._engine: Engine = engine
        for _ in range(TABLES):
            with suppress(DatabaseError):  # another process has just made one
                self.ensure_indexes()
                return
        self.ensure_indexes()

    def _store_user(self, user_doc: dict[str, Any]) -> None:
        """The original's `INSERT OR IGNORE` is SQLite's alone, and hides that a name is taken."""
        names = [
            {"value_normalized": each["value_normalized"], "user_id": user_doc["user_id"]}
            for each in user_doc["identities"]
        ]
        with self._engine.begin() as connection:
            connection.execute(self._table.insert().values(**user_doc))
            connection.execute(self._identity_lookups.insert(), names)

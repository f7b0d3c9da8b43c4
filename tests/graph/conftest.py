"""Each store: SQLite always, PostgreSQL if it is available."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.server.runtime import load_app
from contextrender_bridge.store.base import Store
from contextrender_bridge.store.postgres import PostgresStore
from contextrender_bridge.store.sqlite import SqliteStore

from tests.support import postgres as postgres_support


@pytest.fixture
def new_database(postgres: str) -> str:
    return postgres_support.new_database(postgres)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Create an empty store with the app's types."""
    load_app(app_dir())
    if request.param == "sqlite":
        new_store: Store = SqliteStore(tmp_path / "store.db")
    else:
        new_store = PostgresStore(request.getfixturevalue("new_database"), Settings())
    yield new_store
    new_store.close()

"""Every store there is: SQLite always, PostgreSQL where it can be had."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from contextrender_bridge.paths import app_dir
from contextrender_bridge.server.runtime import load_app
from contextrender_bridge.settings import Settings

from graph.runtime.postgres import PostgresStore
from graph.runtime.sqlite import SqliteStore
from graph.runtime.store import Store
from tests.support import postgres as postgres_support
from tests.support.postgres import cluster, missing


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    if (reason := missing()) is not None:
        pytest.skip(reason)
    with cluster() as address:
        yield address


@pytest.fixture
def new_database(postgres: str) -> str:
    """The address of an empty one."""
    return postgres_support.new_database(postgres)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store that knows the app's types."""
    load_app(app_dir())
    if request.param == "sqlite":
        made: Store = SqliteStore(tmp_path / "store.db")
    else:
        made = PostgresStore(request.getfixturevalue("new_database"), Settings())
    yield made
    made.close()

"""A server of the test app that the tests share."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.servers import DATABASE, Server, forked_test_app
from tests.support.postgres import new_database

NewStore = Callable[[], dict[str, Any]]


@pytest.fixture(scope="session")
def new_store(request: pytest.FixtureRequest) -> NewStore:
    """Return a function that creates an empty store and returns its environment variables.

    There are none for SQLite; with `TEST_STORE=postgres` they name an empty database.
    """
    if os.environ.get("TEST_STORE") != "postgres":
        return dict
    return lambda: {DATABASE: new_database(request.getfixturevalue("postgres"))}


@pytest.fixture(scope="session")
def server(new_store: NewStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("server") / "data"
    environment = {"CONTEXTRENDER_MAX_BODY_MB": "2", **new_store()}
    with forked_test_app(data, **environment) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"

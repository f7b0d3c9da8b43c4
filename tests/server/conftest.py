"""One server of the test app for every test that does not need its own."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.server.servers import TEST_APP, Server, running


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("server") / "data"
    with running([*TEST_APP, "0", str(data)], data, CONTEXTRENDER_MAX_BODY_MB="2") as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"

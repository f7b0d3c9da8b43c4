"""The service with a real SQLite file, in this process for most tests. Each test has a new user."""

import json
import logging
import os
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from contextrender_bridge.server import build_app
from contextrender_bridge.server.accounts.users import Accounts

from tests.api.client import Api
from tests.api.graph import Graph
from tests.support.scripted_model import serving

SETTINGS = ("MODEL", "EMBED_MODEL", "SESSION_CACHE_MB")


@dataclass
class Service:
    """A service in this process, with its data folder."""

    data: Path
    http: httpx.Client
    accounts: Accounts
    walkers: dict[str, type]

    def new_user(self) -> "User":
        """Return a user with an empty graph."""
        token = self.accounts.token(self.accounts.add(f"user-{os.urandom(8).hex()}"))
        caller = self.accounts.caller(token)
        assert caller is not None
        return User(self.data, Api(self.http, token), str(UUID(caller.root)))


@dataclass
class User:
    """A user of the service, with the id of the root node of their graph."""

    data: Path
    api: Api
    root: str

    def graph(self) -> Graph:
        return Graph.read(self.data, self.root)


@pytest.fixture(scope="session")
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Start the service on a loopback port.

    The store is SQLite, or with `TEST_STORE=postgres` a PostgreSQL started for the tests.
    """
    data = tmp_path_factory.mktemp("api") / "data"
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("TEST_STORE") == "postgres":
            patch.setenv("CONTEXTRENDER_DATABASE", request.getfixturevalue("postgres"))
        for name in SETTINGS:
            patch.delenv(f"CONTEXTRENDER_{name}", raising=False)
            patch.delenv(f"CTXGRAPH_{name}", raising=False)
        app = build_app(data)
        with serving(app) as url, httpx.Client(base_url=url, timeout=300) as http:
            core = app.state.service
            yield Service(data, http, core.accounts, core.runtime.walkers)


@pytest.fixture
def alice(service: Service) -> User:
    return service.new_user()


@pytest.fixture
def bob(service: Service) -> User:
    return service.new_user()


@pytest.fixture
def api(alice: User) -> Api:
    return alice.api


NEEDS: dict[str, dict[str, Any]] = {
    "record_usage": {"usage": {"messages": 3, "uncached": 1, "output": 1}},
    "recall": {"results": [3]},
    "read_message": {"position": 3},
    "search": {"query": "ORD-1001"},
    "trace_value": {"value": "ORD-1001"},
}


def endpoints(service: Service) -> dict[str, list[str]]:
    return {
        name: [field.name for field in fields(walker) if field.init and field.name[0] != "_"]
        for name, walker in service.walkers.items()
    }


def session_walkers(service: Service) -> list[str]:
    creators = ("sync", "render", "compact", "import_session")
    walkers = endpoints(service).items()
    return [name for name, arguments in walkers if "session" in arguments and name not in creators]


def example(walker: str, session: str) -> dict[str, Any]:
    """Return the fields of a valid call for an existing session."""
    if walker in ("list_sessions", "open_local_sessions", "holdout_report", "total_savings"):
        return {}
    if walker in ("sync", "render", "compact"):
        return {"session": session, "messages": [{"role": "user", "content": "Hello."}]}
    if walker == "open_file":
        messages = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
        return {"name": "a.json", "content": b64encode(json.dumps(messages).encode()).decode()}
    if walker == "import_session":
        return {"session": session, "data": {}}
    return {"session": session, **NEEDS.get(walker, {})}

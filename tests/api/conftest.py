"""The service over a real SQLite file: in this process for most tests, a new user for each."""

import json
import logging
import os
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from uuid import UUID

import bcrypt
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
    """A service in this process and where it keeps its data."""

    data: Path
    http: httpx.Client
    accounts: Accounts
    walkers: dict[str, type]

    def new_user(self) -> "User":
        """Somebody with an empty graph."""
        token = self.accounts.token(self.accounts.add(f"user-{os.urandom(8).hex()}"))
        caller = self.accounts.caller(token)
        assert caller is not None
        return User(self.data, Api(self.http, token), str(UUID(caller.root)))


@dataclass
class User:
    """A user of the service, and the id of the root that everything of theirs belongs to."""

    data: Path
    api: Api
    root: str

    def graph(self) -> Graph:
        return Graph.read(self.data, self.root)


@pytest.fixture(scope="session")
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """On a loopback port of this process, with cheap password hashes: nobody logs in here.

    Over SQLite; or, with `TEST_STORE=postgres`, a PostgreSQL of the tests' own.
    """
    salt, data = bcrypt.gensalt, tmp_path_factory.mktemp("api") / "data"
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("TEST_STORE") == "postgres":
            patch.setenv("CONTEXTRENDER_DATABASE", request.getfixturevalue("postgres"))
        patch.setattr(bcrypt, "gensalt", lambda *_: salt(4))
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


def of_a_session(service: Service) -> list[str]:
    begin_one = ("sync", "render", "compact", "import_session")
    found = endpoints(service).items()
    return [name for name, named in found if "session" in named and name not in begin_one]


def example(walker: str, session: str) -> dict[str, Any]:
    """A call that is right, if the session is there."""
    if walker in ("recommend_all", "list_sessions", "holdout_report", "total_savings"):
        return {}
    if walker in ("sync", "render", "compact"):
        return {"session": session, "messages": [{"role": "user", "content": "Hello."}]}
    if walker == "open_file":
        messages = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
        return {"name": "a.json", "content": b64encode(json.dumps(messages).encode()).decode()}
    if walker == "import_session":
        return {"session": session, "data": {}}
    return {"session": session, **NEEDS.get(walker, {})}

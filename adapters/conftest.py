"""A real service and a scripted model for every adapter's test, and the proxy between them."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from contextrender_bridge import ContextRender, Credentials
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.client.replies import SessionView
from contextrender_bridge.local_service import temporary_service
from contextrender_bridge.proxy.app import Proxy, trust_own_programs
from contextrender_bridge.request_guards import Guard

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from adapters.testing import hosts
from adapters.testing.installs import environment
from adapters.testing.javascript import built_client, package_in
from adapters.testing.scripted import Script
from tests.support.scripted_model import Model, serving
from tests.support.waiting import wait_until


@dataclass
class Loopback:
    """The addresses of a test: the model, the proxy to it, and the service."""

    model: Model
    proxy: str
    service: Credentials
    client: ContextRender

    def environment(self, **variables: str) -> dict[str, str]:
        """Return an environment in which OpenAI's address is the scripted model's."""
        return environment(
            CONTEXTRENDER_URL=self.service.url,
            CONTEXTRENDER_TOKEN=self.service.token,
            OPENAI_BASE_URL=f"{self.model.url}/v1",
            OPENAI_API_KEY="sk-none",
            **variables,
        )

    def failures(self) -> dict[str, int]:
        """Return how many calls the proxy forwarded unchanged after a failure, by reason."""
        status = httpx.get(f"{self.proxy}/contextrender/status").json()
        counts: dict[str, int] = status["fail_open"]
        return counts

    def sessions(self) -> list[SessionView]:
        """Return the recorded sessions."""
        return self.client.list_sessions()["sessions"]

    def wait_for_turn(self, turns: int) -> SessionView:
        """Wait until turn `turns` is recorded, and return the only session."""
        wait_until(lambda: self.sessions()[0]["turns"] >= turns)
        (session,) = self.sessions()
        return session

    def check(self, script: Script) -> None:
        """Check the requests of an example, and its only session."""
        hosts.check(script)
        session = self.wait_for_turn(turns := len(script.steps) - 1)
        assert session["session"].endswith("-hosts") and session["turns"] == turns


@pytest.fixture(scope="session")
def service() -> Iterator[Credentials]:
    """Start one service for all tests."""
    with temporary_service() as credentials:
        yield credentials


@contextmanager
def proxying(
    service: Credentials,
    upstream: str,
    budget: int | str = hosts.BUDGET,
    policy: str = "contextrender",
) -> Iterator[str]:
    """Start a proxy to `upstream`, such as `http://127.0.0.1:9/v1`, and yield its address."""
    settings = Settings(
        upstream=upstream,
        anthropic_upstream=upstream,
        budget=budget,
        policy=policy,
        render_timeout=10.0,
    )
    inner = AsyncContextRender(service.url, service.token, retries=0)
    with serving(Guard(Proxy(settings, inner, trust_own_programs()))) as address:
        yield address


@pytest.fixture
def loopback(service: Credentials) -> Iterator[Loopback]:
    """Start a model for the test, behind a proxy that renders within the tests' budget."""
    with ExitStack() as stack:
        model = Model()
        model.url = stack.enter_context(serving(model, lifespan="off"))
        address = stack.enter_context(proxying(service, f"{model.url}/v1"))
        client = stack.enter_context(ContextRender(service.url, service.token))
        for session in client.list_sessions()["sessions"]:
            client.delete_session(session["session"])
        yield Loopback(model, address, service, client)


@pytest.fixture(scope="session")
def client_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the TypeScript client, packed as for publication."""
    folder = tmp_path_factory.mktemp("client")
    built_client(folder)
    return package_in(folder)

"""A real service, a scripted model and a proxy between them, on loopback."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from contextrender_bridge import ContextRender, Credentials
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.proxy.app import Proxy, trust_nobody, trust_own_programs
from contextrender_bridge.request_guards import BodyLimits, Guard

from tests.support.scripted_model import Model, serving


@dataclass
class Setup:
    url: str
    model: Model
    http: httpx.Client
    service: ContextRender
    proxy: Proxy

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send a request with a provider's key."""
        header_fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(
            path, json=body, headers={"authorization": "Bearer sk-1", **header_fields}
        )


Start = Callable[..., Setup]


def start_all(credentials: Credentials) -> Iterator[Start]:
    with ExitStack() as stack:

        def start_proxy(
            url: str = "",
            token: str = "",
            own_token: bool = True,
            secret: str = "",
            **settings: Any,
        ) -> Setup:
            model = Model()
            options = {"server_header": False, "date_header": False}
            model.url = stack.enter_context(serving(model, lifespan="off", **options))
            values = {
                "upstream": f"{model.url}/v1",
                "anthropic_upstream": f"{model.url}/v1",
                "budget": 600,
                "policy": "contextrender",
                "render_timeout": 120.0,
                **settings,
            }
            client = AsyncContextRender(
                url or credentials.url, token or credentials.token, retries=0
            )
            trust = trust_own_programs(secret) if own_token else trust_nobody
            proxy_settings = Settings(**values)
            bodies = BodyLimits(proxy_settings)
            proxy = Proxy(proxy_settings, client, trust, bodies=bodies)
            address = stack.enter_context(serving(Guard(proxy), **options))
            http = stack.enter_context(httpx.Client(base_url=address, timeout=300))
            service = stack.enter_context(ContextRender(credentials.url, credentials.token))
            return Setup(address, model, http, service, proxy)

        yield start_proxy


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def start(credentials: Credentials) -> Iterator[Start]:
    """Return a function that starts a proxy with settings; `url` and `token` name another
    service."""
    yield from start_all(credentials)


@pytest.fixture(scope="session")
def shared_setup(credentials: Credentials) -> Iterator[Setup]:
    for start in start_all(credentials):
        yield start()


@pytest.fixture
def setup(shared_setup: Setup) -> Setup:
    """Return the shared proxy, with its model reset."""
    shared_setup.model.requests, shared_setup.model.script = [], []
    shared_setup.model.answer, shared_setup.model.cancelled = None, 0
    shared_setup.http.cookies.clear()
    return shared_setup

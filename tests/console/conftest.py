"""A server with various sessions, and console pages in a browser."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.credentials import load_credentials

from tests.api.client import Api
from tests.console.transcripts import make_run
from tests.server.servers import Server, running_server
from tests.support.transcripts import render_calls

PASSWORD = "correct horse battery"
ORDERS = "orders-2026-q1"
PATIENCE_MS = 120_000
"""Milliseconds; machines that run tests are busy."""
LARGE = "claims-backlog"
HOSTILE = "<img src=x onerror=hacked=1> & co"
BUDGET = 6000
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


class Service(Api):
    """The running server and the endpoints of its local user."""

    def __init__(self, server: Server, http: httpx.Client) -> None:
        super().__init__(http, load_credentials(server.data).token)
        self.server = server
        self.http = http
        self.runs: dict[str, list[Json]] = {}

    def of(self, token: str) -> Api:
        """Return the endpoints for another user's token."""
        return Api(self.http, token)

    def record(self, session: str, messages: list[Json], **settings: Any) -> None:
        self.runs[session] = messages
        self("sync", session=session, messages=messages, settings=settings)

    def render(self, session: str, messages: list[Json], **settings: Any) -> None:
        """Record a session as an agent does: render before each model call."""
        self.runs[session] = messages
        render_calls(self, session, messages, **settings)

    def misses(self, session: str) -> Iterator[Json]:
        """Yield the misses of a session, page by page."""
        for page in self.pages("misses", session=session):
            yield from page["misses"]

    def timeline(self, session: str) -> list[Json]:
        pages = self.pages("timeline", session=session)
        return [turn for page in pages for turn in page["turns"]]


def complete(api: Api, walker: str, **fields: Any) -> Any:
    while not (view := api(walker, **fields))["complete"]:
        pass
    return view


@pytest.fixture(scope="session")
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Start a server with one rendered session; for slow tests record many others before it."""
    data = tmp_path_factory.mktemp("console") / "data"
    with running_server(data) as server, server.client() as http:
        service = Service(server, http)
        if any(item.get_closest_marker("slow") for item in request.session.items):
            service.record(LARGE, make_run(1000, 7), budget=8000)
            service.record(HOSTILE, make_run(62, 5, hostile=True))
            for index in range(27):
                service.record(f"nightly-{index:02d}", make_run(3 + index % 5, index))
        service.render(ORDERS, make_run(64, 3))
        yield service


@pytest.fixture(scope="session")
def other(service: Service) -> str:
    token = service.server.add_user("other", password=PASSWORD)
    service.of(token)("sync", session="not yours", messages=make_run(2))
    return token


@contextmanager
def running_browser() -> Iterator[Any]:
    """Start Chromium with Playwright; skip the test if one of them is missing."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=FLAGS + sandbox)
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as started:
        yield started


class Console:
    """A page of the console. Errors in the page fail the test."""

    def __init__(self, page: Any, service: Service) -> None:
        self.page = page
        self.service = service
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._record_message)
        page.on("dialog", self._dismiss_dialog)

    def _record_message(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _dismiss_dialog(self, dialog: Any) -> None:
        self.problems.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def enter(self) -> "Console":
        """Open the link that the server prints."""
        self.page.goto(f"{self.service.server.url}/console/#token={self.service.token}")
        self.page.get_by_role("heading", name="Sessions").wait_for()
        return self

    def open(self, session: str, view: str = "timeline", item: int | None = None) -> "Console":
        """Go to a view without loading the page again."""
        address = f"#/session/{quote(session, safe='')}/{view}"
        address += "" if item is None else f"/{item}"
        self.page.evaluate("where => { location.hash = where }", address)
        self.page.get_by_role("heading", name=session, level=1).wait_for()
        return self

    def home(self) -> "Console":
        self.page.evaluate("location.hash = '#/'")
        self.page.get_by_role("heading", name="Sessions", level=1).wait_for()
        return self


@pytest.fixture
def visit(browser: Any, service: Service) -> Iterator[Callable[..., Console]]:
    """Return a function that opens a page in a new browser profile."""
    opened: list[tuple[Any, Console]] = []

    def make(**options: Any) -> Console:
        context = browser.new_context(
            **{"viewport": {"width": 1440, "height": 900}, "color_scheme": "light", **options}
        )
        context.set_default_timeout(PATIENCE_MS)
        console = Console(context.new_page(), service)
        opened.append((context, console))
        return console

    yield make
    problems = [problem for _, console in opened for problem in console.problems]
    for context, _ in opened:
        context.close()
    assert not problems


@pytest.fixture
def console(visit: Callable[..., Console]) -> Console:
    return visit().enter()

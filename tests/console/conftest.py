"""A server with sessions of every kind, and pages of it in a browser."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from contextrender_bridge.base.wire import Json

from tests.console.browser import running_browser
from tests.console.transcripts import make_run
from tests.server.servers import Server, served
from tests.support.transcripts import called

PASSWORD = "correct horse battery"
ORDERS = "orders-2026-q1"
PATIENCE_MS = 120_000
"""Machines that run tests are busy ones."""
LARGE = "claims-backlog"
HOSTILE = "<img src=x onerror=hacked=1> & co"
BUDGET = 6000


@dataclass
class Service:
    """The running server and how its sessions are reached."""

    server: Server
    token: str
    http: httpx.Client
    runs: dict[str, list[Json]] = field(default_factory=dict)

    def post(self, walker: str, token: str = "", **fields: Any) -> httpx.Response:
        bearer = {"authorization": f"Bearer {token or self.token}"}
        return self.http.post(f"/walker/{walker}", json=fields, headers=bearer)

    def __call__(self, walker: str, token: str = "", **fields: Any) -> Any:
        """The one report of a call that succeeds."""
        reply = self.post(walker, token, **fields)
        assert reply.status_code == 200, reply.text
        return reply.json()["reports"][0]

    def record(self, session: str, messages: list[Json], **settings: Any) -> None:
        self.runs[session] = messages
        self("sync", session=session, messages=messages, settings=settings)

    def render(self, session: str, messages: list[Json], **settings: Any) -> None:
        """As an agent would: a rendering before every model call."""
        self.runs[session] = messages
        called(self, session, messages, **settings)

    def complete(self, walker: str, **fields: Any) -> Any:
        """The report, once it is complete."""
        while not (view := self(walker, **fields))["complete"]:
            pass
        return view

    def pages(self, walker: str, session: str) -> Iterator[Any]:
        """The reports of a walker that tells of some turns at a time."""
        start: int | None = 1
        while start is not None:
            page = self(walker, session=session, start=start)
            yield page
            start = page["next"]

    def misses(self, session: str) -> Iterator[Json]:
        for page in self.pages("misses", session):
            yield from page["misses"]

    def timeline(self, session: str) -> list[Json]:
        return [turn for page in self.pages("timeline", session) for turn in page["turns"]]


@pytest.fixture(scope="session")
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A run rendered as an agent does; before it, for the slow tests, many others recorded."""
    data = tmp_path_factory.mktemp("console") / "data"
    with served(data) as server, server.client() as http:
        stored = json.loads((data / "credentials.json").read_text())
        service = Service(server, stored["token"], http)
        if any(item.get_closest_marker("slow") for item in request.session.items):
            service.record(LARGE, make_run(1000, 7), budget=8000)
            service.record(HOSTILE, make_run(62, 5, hostile=True))
            for index in range(27):
                service.record(f"nightly-{index:02d}", make_run(3 + index % 5, index))
        service.render(ORDERS, make_run(64, 3))
        yield service


@pytest.fixture(scope="session")
def other(service: Service) -> str:
    """The token of another user, who has a password and one session."""
    token = service.server.add_user("other", password=PASSWORD)
    service("sync", token, session="not yours", messages=make_run(2))
    return token


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_browser() as started:
        yield started


class Console:
    """A page of the console. What goes wrong in it fails the test."""

    def __init__(self, page: Any, service: Service) -> None:
        self.page = page
        self.service = service
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._said)
        page.on("dialog", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _asked(self, dialog: Any) -> None:
        self.problems.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def enter(self, token: str = "") -> "Console":
        """Opens the link that the server prints."""
        self.page.goto(f"{self.service.server.url}/console/#token={token or self.service.token}")
        self.page.get_by_role("heading", name="Sessions").wait_for()
        return self

    def open(self, session: str, view: str = "timeline", item: int | None = None) -> "Console":
        """Goes to a view, without loading the page again."""
        where = f"#/session/{quote(session, safe='')}/{view}"
        where += "" if item is None else f"/{item}"
        self.page.evaluate("where => { location.hash = where }", where)
        self.page.get_by_role("heading", name=session, level=1).wait_for()
        return self

    def home(self) -> "Console":
        self.page.evaluate("location.hash = '#/'")
        self.page.get_by_role("heading", name="Sessions", level=1).wait_for()
        return self


@pytest.fixture
def visit(browser: Any, service: Service) -> Iterator[Callable[..., Console]]:
    """Makes pages, each in a profile of its own."""
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

"""A session of which the store has lost a result, in the page and in the terminal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.api.graph import Graph, reading
from tests.console.conftest import COMMAND, PATIENCE_MS, Console, Service
from tests.console.test_terminal import run
from tests.console.transcripts import make_run
from tests.server.servers import running

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=PATIENCE_MS)
pytestmark = pytest.mark.slow
KEPT = 20
"""Messages before the one that is lost."""


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A server, started again after a row of its session was deleted."""
    data = tmp_path_factory.mktemp("damaged") / "data"
    command = [*COMMAND, "serve", "--port", "0", "--data", str(data)]
    with running(command, data) as server, server.client() as http:
        token = http.headers["authorization"].removeprefix("Bearer ")
        service = Service(server, token, http)
        service.render("torn", make_run(24), budget=900)
        root = service("look_at_node")["owner"]
        server.stop()
    lose_message(data, root, KEPT)
    with running(command, data) as server, server.client() as http:
        yield Service(server, http.headers["authorization"].removeprefix("Bearer "), http)


def lose_message(data: Path, root: str, position: int) -> None:
    """Deletes the node of a message."""
    (lost,) = [
        node
        for node in Graph.read(data, root).nodes.values()
        if node.kind in ("Message", "ToolResult") and node.fields["position"] == position
    ]
    with reading(data) as statement:
        statement("DELETE FROM nodes WHERE owner = ? AND id = ?", UUID(root), UUID(lost.id))


def test_every_view_of_the_page_says_so(damaged: Service, browser: Any) -> None:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    console = Console(context.new_page(), damaged).enter()
    for view in ("misses", "timeline", "call", "tools", "savings"):
        console.open("torn", view)
        told = console.page.get_by_role("alert").first
        expect(told).to_contain_text(f"message {KEPT} of branch 0 cannot be read")
    expect(console.page.get_by_text("No call lacked anything")).to_have_count(0)
    context.close()


def test_the_terminal_says_so(damaged: Service) -> None:
    for words in (
        ("show", "torn"),
        ("show", "torn", "--misses"),
        ("explain", "torn", "--turn", "3"),
    ):
        assert f"message {KEPT} of branch 0 cannot be read" in run(damaged, *words)

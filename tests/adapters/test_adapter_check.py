"""The first-run check: it names what is missing, and is content where nothing is."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge import ContextRender, Credentials
from contextrender_bridge.adapters import check
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.proxy.app import Proxy
from contextrender_bridge.proxy.standalone import Standalone

from tests.server.servers import REPOSITORY
from tests.support.scripted_model import serving


def own(credentials: Credentials) -> Any:
    return {"CONTEXTRENDER_URL": credentials.url, "CONTEXTRENDER_TOKEN": credentials.token}


def check_left_nothing(credentials: Credentials) -> None:
    with ContextRender(credentials.url, credentials.token) as client:
        assert client.list_sessions(query="check-")["sessions"] == []


def checked(
    *words: str, folder: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if "CONTEXTRENDER" not in key}
    command = [sys.executable, "-m", "contextrender_bridge.adapters.check", *words]
    environment = {**kept, **variables}
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)


def test_every_adapter_can_be_checked() -> None:
    folders = {path.parent.name for path in (REPOSITORY / "adapters").glob("*/README.md")}
    assert set(check.RUNTIMES) == folders


def test_what_is_missing_is_named(tmp_path: os.PathLike[str]) -> None:
    done = checked("langchain", CONTEXTRENDER_DATA=str(tmp_path))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "MEND  runtime",
        "MEND  adapter",
        "MEND  service",
        "MEND  a call",
    ]
    assert "contextrender serve" in done.stdout
    assert done.stderr == ""


def test_a_call_is_shortened_and_nothing_is_left_behind(credentials: Credentials) -> None:
    told = checked("acon", **own(credentials)).stdout
    assert re.search("ok    a call: through the adapter [1-7] of 8 results were sent", told), told
    check_left_nothing(credentials)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "ok    a call: through the proxy [1-7] of 8 results were sent"),
        ({"mode": "observe"}, "ok    a call: through the proxy"),
        ({"holdout": 1.0}, "MEND  a call: not tried: --holdout holds this session out"),
    ],
)
def test_a_call_by_the_proxy(credentials: Credentials, settings: Json, told: str) -> None:
    inner = AsyncContextRender(credentials.url, credentials.token)
    with serving(Standalone(Proxy(Settings(deadline=120.0, **settings), inner))) as address:
        done = checked("codex", "--proxy", address, **own(credentials))
    assert re.search(told, done.stdout), done.stdout
    check_left_nothing(credentials)


def test_javascript_is_looked_for_where_it_is_run(credentials: Credentials, tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "ai" / "package.json"
    package.parent.mkdir(parents=True)
    package.write_text('{"version": "7.0.0"}')
    (tmp_path / "src").mkdir()
    lines = checked("ai_sdk", folder=tmp_path / "src", **own(credentials)).stdout.splitlines()
    assert lines[0] == "ok    runtime: ai 7.0.0"
    assert lines[1].startswith("MEND  adapter: @contextrender/client is not installed for ")
    assert lines[3].startswith("MEND  a call: ")
    check_left_nothing(credentials)


@pytest.mark.parametrize("name", ["codex", "litellm"])
def test_a_proxy_that_is_not_there_is_named(credentials: Credentials, name: str) -> None:
    done = checked(name, "--proxy", "http://127.0.0.1:9", **own(credentials))
    assert "MEND  proxy: no proxy of ContextRender's answers" in done.stdout
    assert done.returncode == 1

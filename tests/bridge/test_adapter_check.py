"""The first-run check: it names what is missing, and is content where nothing is."""

import os
import re
import subprocess
import sys

import pytest
from contextrender_bridge import ContextRender, Credentials
from contextrender_bridge.adapters import check

from tests.server.servers import REPOSITORY


def checked(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if "CONTEXTRENDER" not in key}
    command = [sys.executable, "-m", "contextrender_bridge.adapters.check", *words]
    environment = {**kept, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


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


@pytest.mark.parametrize("name", ["acon", "codex"])
def test_a_call_is_shortened_and_nothing_is_left_behind(service: Credentials, name: str) -> None:
    variables = {"CONTEXTRENDER_URL": service.url, "CONTEXTRENDER_TOKEN": service.token}
    told = checked(name, **variables).stdout
    through = r"ok    a call: through the adapter [1-7] of 8 results were sent"
    assert re.search(through if name == "acon" else "ok    a call: .* tokens became", told), told
    with ContextRender(service.url, service.token) as client:
        found = client.list_sessions(query="check-")["sessions"]
    assert found == []


@pytest.mark.parametrize("name", ["codex", "litellm"])
def test_a_proxy_that_is_not_there_is_named(service: Credentials, name: str) -> None:
    variables = {"CONTEXTRENDER_URL": service.url, "CONTEXTRENDER_TOKEN": service.token}
    done = checked(name, "--proxy", "http://127.0.0.1:9", **variables)
    assert "MEND  proxy: no proxy of ContextRender's answers" in done.stdout
    assert done.returncode == 1

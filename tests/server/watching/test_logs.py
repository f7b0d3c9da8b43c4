"""Log lines have place and type of an event, never contents."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.server.watching import logs
from contextrender_bridge.server.watching.logs import ContentFreeFormatter

from tests.server.servers import Server, running_server


def line(name: str) -> str:
    try:
        try:
            raise KeyError("SECRET")
        except KeyError as cause:
            raise ValueError("SECRET") from cause
    except ValueError as failure:
        info = (ValueError, failure, failure.__traceback__)
        record = logging.LogRecord(name, logging.ERROR, "a/b.py", 7, "SECRET %s", ("x",), info)
    return ContentFreeFormatter().format(record)


def test_message_of_other_package_is_withheld() -> None:
    text = line("jaclang.runtimelib.memory")
    assert " ERROR jaclang.runtimelib.memory b.py:7 (message withheld) ValueError at" in text
    assert ", after KeyError at test_logs.py" in text
    assert "SECRET" not in text


def test_own_message_is_shown() -> None:
    assert "SECRET x ValueError at" in line("contextrender")


def test_debug_setting_shows_messages_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "current_settings", lambda: Settings(debug=True))
    assert "SECRET x" in line("jaclang.runtimelib.memory")


CANARY = "CANARY_7731"


def talk(server: Server) -> None:
    message = {"role": "user", "content": CANARY}
    with server.client() as client:
        headers = {"x-request-id": "run-5.a_1"}
        good = {"session": CANARY, "messages": [message]}
        reply = client.post("/walker/render", json=good, headers=headers)
        assert reply.status_code == 200 and reply.headers["x-request-id"] == "run-5.a_1"
        unfit = {"x-request-id": f"{CANARY} with spaces"}
        reply = client.post("/walker/render", json={CANARY: 1}, headers=unfit)
        assert reply.status_code == 422
        assert re.fullmatch("[0-9a-f]{32}", reply.headers["x-request-id"])
        assert client.post(f"/walker/{CANARY}", json={}).status_code == 404
        assert client.get(f"/{CANARY}").status_code == 404
        wrong = {"username": CANARY, "password": CANARY}
        assert client.post("/user/login", json=wrong).status_code == 401
        client.get("/healthz")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_each_request_is_logged_without_contents(tmp_path: Path, form: str) -> None:
    data = tmp_path / "data"
    options = ["--log-format", form, "--log-level", "debug"]
    with running_server(data, *options) as server:
        talk(server)
        server.stop()
        printed = server.err
    assert CANARY not in printed
    lines = [line for line in printed.splitlines() if "request answered" in line]
    if form == "text":
        (line,) = [line for line in lines if "request=run-5.a_1" in line]
        assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00 INFO contextrender ", line)
        assert re.search(r" user=local route=render status=200 ms=[\d.]+$", line)
        return
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    (first,) = [record for record in records if record["request"] == "run-5.a_1"]
    assert first["ms"] > 0 and first["level"] == "INFO"
    assert (first["user"], first["route"], first["status"]) == ("local", "render", 200)
    statuses = [
        (record["route"], record["status"]) for record in records if record["level"] == "INFO"
    ]
    assert {("render", 422), ("unknown", 404), ("user", 401)} <= set(statuses)
    assert [record["level"] for record in records if record["route"] == "healthz"][-1:] == ["DEBUG"]

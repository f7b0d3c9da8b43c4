"""Access to a proxy on this machine: own programs only, no web page and no other user."""

import asyncio
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import httpx
import pytest
from contextrender_bridge import Credentials, request_guards
from contextrender_bridge.base.settings import read_settings
from contextrender_bridge.proxy import peers
from contextrender_bridge.request_guards import Guard

from tests.proxy.agents import ChatAgent
from tests.proxy.conftest import Setup, Start

BODY = {"model": "m", "messages": [{"role": "user", "content": "hello " * 900}]}
CALLS = "/v1/chat/completions"
REQUEST_AS_OTHER_USER = """
import encodings.idna, os, sys, urllib.request
os.setuid(65534)
try:
    urllib.request.urlopen(sys.argv[1], timeout=20)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"host": "evil.example:8700"}, 421, "unknown_host"),
        ({"host": "127.0.0.1.evil.example"}, 421, "unknown_host"),
        ({"host": "[::1"}, 421, "unknown_host"),
        ({"host": "[::1].evil.example"}, 421, "unknown_host"),
        ({"host": "x@localhost"}, 421, "unknown_host"),
        ({"host": "evil.example@127.0.0.1:8700"}, 421, "unknown_host"),
        ({"host": "127.0.0.1#evil.example"}, 421, "unknown_host"),
        ({"host": "127.0.0.1?evil.example"}, 421, "unknown_host"),
        ({"host": "localhost/evil.example"}, 421, "unknown_host"),
        ({"host": "localhost:8700:evil.example"}, 421, "unknown_host"),
        ({"host": "localhost:port"}, 421, "unknown_host"),
        ({"host": "local\thost"}, 421, "unknown_host"),
        ({"host": ""}, 421, "unknown_host"),
        ({"origin": "https://evil.example"}, 403, "origin_not_allowed"),
        ({"origin": "null"}, 403, "origin_not_allowed"),
        ({"origin": "http://127.0.0.1:1"}, 403, "origin_not_allowed"),
        ({"sec-fetch-site": "same-site"}, 403, "origin_not_allowed"),
    ],
)
def test_foreign_host_or_origin_is_refused(
    setup: Setup, headers: dict[str, str], status: int, code: str
) -> None:
    for path in (CALLS, "/v1/models", "/v1/retrieve/x", "/contextrender/status"):
        method, body = ("POST", b"{}") if path == CALLS else ("GET", b"")
        kind = {"content-type": "text/plain", **headers}
        response = setup.http.request(method, path, content=body, headers=kind)
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert setup.model.requests == []


def test_service_routes_refuse_foreign_host_or_origin(credentials: Credentials) -> None:
    header_fields = {"host": "evil.example"}, {"origin": "https://evil.example"}
    for path in ("/healthz", "/console/", "/walker/list_sessions", "/user/login"):
        for headers, code in zip(
            header_fields, ("unknown_host", "origin_not_allowed"), strict=True
        ):
            response = httpx.get(credentials.url + path, headers=headers)
            assert response.json()["error"]["code"] == code
            names = response.headers.keys()
            assert "server" not in names and not any("access-control" in name for name in names)


def test_loopback_names_and_own_pages_are_served(setup: Setup) -> None:
    port = setup.url.rsplit(":", 1)[1]
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.2"):
        response = setup.http.get("/contextrender/status", headers={"host": f"{name}:{port}"})
        assert response.status_code == 200
    headers = {"origin": setup.url, "sec-fetch-site": "same-origin"}
    assert setup.http.get("/contextrender/status", headers=headers).status_code == 200
    link = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    assert setup.http.get("/contextrender/status", headers=link).status_code == 200


def test_allowed_hosts_are_served(monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    monkeypatch.setenv("CONTEXTRENDER_ALLOWED_HOSTS", "host.docker.internal, my.page:3000")
    monkeypatch.setattr(request_guards, "current_settings", read_settings)
    setup = start()
    for headers in ({"host": "host.docker.internal:8700"}, {"origin": "http://my.page:3000"}):
        assert setup.http.get("/contextrender/status", headers=headers).status_code == 200
    response = setup.http.get("/contextrender/status", headers={"origin": "http://my.page:3001"})
    assert response.status_code == 403


def test_other_host_names_are_served_beyond_loopback() -> None:
    servers = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        servers.append(scope["server"])

    guard = Guard(app)
    for address in ("10.0.0.7", "contextrender.embedded"):
        scope = {"type": "http", "server": (address, 80), "headers": [(b"host", b"name.example")]}
        asyncio.run(guard(scope, None, None))  # type: ignore[arg-type]
    assert len(servers) == 2


def test_other_users_program_gets_no_token(
    setup: Setup, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = ChatAgent(setup, uuid.uuid4().hex).add_turns(8)
    reply = setup.post("/v1/compress", {"model": "m", "messages": agent.items}).json()
    path = f"/v1/retrieve/{reply['ccr_hashes'][0]}"
    assert setup.http.get(path).status_code == 200
    monkeypatch.setattr(peers, "own_user", lambda: -2)
    assert setup.http.get(path).status_code == 401
    assert setup.post(CALLS, BODY).headers["x-contextrender-fail-open"] == "token_missing"
    token = {"x-contextrender-token": credentials.token}
    assert "x-contextrender-fail-open" not in setup.post(CALLS, BODY, **token).headers


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root has others")
def test_real_other_user_gets_no_token(setup: Setup) -> None:
    command = [sys.executable, "-c", REQUEST_AS_OTHER_USER, f"{setup.url}/v1/retrieve/{'0' * 24}"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert process.stdout == "401\n", process.stderr


def test_secret_in_path_authenticates_the_user(
    start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = peers.link_secret(tmp_path)
    assert secret == peers.link_secret(tmp_path)
    assert (tmp_path / peers.SECRET_FILE).stat().st_mode & 0o777 == 0o600
    setup = start(secret=secret)
    monkeypatch.setattr(peers, "own_user", lambda: -2)
    for link, reason in ((secret, None), (f"{secret}x", "token_missing"), ("", "token_missing")):
        response = setup.post(f"/k/{link}/s/mine{CALLS}" if link else CALLS, BODY)
        assert response.headers.get("x-contextrender-fail-open") == reason
        assert setup.model.requests[-1].path == CALLS

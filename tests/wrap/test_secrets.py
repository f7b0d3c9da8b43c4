"""No process of a wrapped run has a secret in its arguments, which other users can read."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from contextrender_bridge.wrap.agents import AGENTS as SUPPORTED

from tests.server.servers import BIN
from tests.support.scripted_model import Model, ModelRequest, Reply, chat, json_reply, serving
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

DOUBLE = f"""#!{sys.executable}
# A double of an agent. It reports its arguments, environment and files, and waits.
import json, os, pathlib, sys, time
files = {{}}
for word in [*sys.argv, *os.environ.values()]:
    path = pathlib.Path(word[:200])
    for file in [path] if path.is_file() else []:
        files[word] = [file.read_text(errors="replace"), file.stat().st_mode]
    for file in path.glob("*") if word.startswith(os.environ["CONTEXTRENDER_DATA"]) else []:
        if file.is_file():
            files[str(file)] = [file.read_text(errors="replace"), file.stat().st_mode]
report = {{"arguments": sys.argv, "environment": dict(os.environ), "files": files}}
pathlib.Path(os.environ["REPORT"] + ".new").write_text(json.dumps(report))
os.rename(os.environ["REPORT"] + ".new", os.environ["REPORT"])
time.sleep(600)
"""

NOWHERE = "http://127.0.0.1:9"
OPENCLAW = {
    "models": {
        "providers": {"a": {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions"}}
    },
    "agents": {"defaults": {"model": {"primary": "a/large"}}},
}
AGENTS = {
    "claude": ["claude", "-p", "hi"],
    "claude with settings": ["claude", "--settings", '{"env": {"A": "b"}}', "-p", "hi"],
    "codex": ["codex", "exec", "hi"],
    "codex elsewhere": [
        *("codex", "exec", "-c", 'model_provider="gw"'),
        *("-c", 'model_providers.gw.base_url="http://127.0.0.1:9/v1"', "hi"),
    ],
    "opencode": ["opencode", "run", "hi"],
    "openclaw": ["openclaw", "agent", "--local", "-m", "hi"],
    "hermes": ["hermes", "chat", "-q", "hi"],
    "mini": ["mini", "-c", "model.model_kwargs.api_base=http://127.0.0.1:9/v1", "-t", "hi"],
    "command": ["--base-url-env", "OPENAI_BASE_URL", "--", "command", "x"],
}


def test_every_supported_agent_is_tested() -> None:
    assert {words[0] for words in AGENTS.values()} >= set(SUPPORTED)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secrets") / "data"


@pytest.fixture
def environment(tmp_path: Path, data: Path) -> dict[str, str]:
    for name in ("claude", "codex", "opencode", "openclaw", "hermes", "mini", "command"):
        (tmp_path / name).write_text(DOUBLE)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "home" / ".openclaw").mkdir(parents=True)
    (tmp_path / "home" / ".openclaw" / "openclaw.json").write_text(json.dumps(OPENCLAW))
    (tmp_path / "home" / ".hermes").mkdir()
    (tmp_path / "home" / ".hermes" / "config.yaml").write_text(
        "model: {provider: custom, base_url: 'http://127.0.0.1:9/v1'}"
    )
    return {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "CONTEXTRENDER_DATA": str(data),
        "CONTEXTRENDER_IDLE_TIMEOUT": "30",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "REPORT": str(tmp_path / "report"),
    }


def arguments_of_all() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_text(errors="replace")


@pytest.mark.parametrize("agent", AGENTS)
def test_no_process_has_a_secret_in_its_arguments(
    agent: str, environment: dict[str, str], tmp_path: Path, data: Path
) -> None:
    environment.pop("OPENAI_API_KEY", None)
    command = [str(BIN / "contextrender"), "wrap", *AGENTS[agent]]
    with (tmp_path / "err").open("wb") as errors:
        process = subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=errors)
    try:
        wait_until(
            lambda: (tmp_path / "report").exists(),
            alive=lambda: process.poll() is None,
            explain=lambda: (tmp_path / "err").read_text(),
        )
        report = json.loads((tmp_path / "report").read_text())
        secrets = secrets_in(report)
        assert secrets, report
        secrets |= {json.loads((data / "credentials.json").read_text())["token"]}
        all_arguments = "\n".join(arguments_of_all())
        assert f"wrap\0{AGENTS[agent][0]}" in all_arguments
        assert not [secret for secret in secrets if secret in all_arguments]
        for name, (text, mode) in report["files"].items():
            assert mode & 0o077 == 0 or not any(secret in text for secret in secrets), name
    finally:
        process.kill()
        process.wait()
        for pid in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if str(tmp_path).encode() in (pid / "cmdline").read_bytes():
                    os.kill(int(pid.name), 9)


def secrets_in(report: dict[str, dict[str, object]]) -> set[str]:
    """Return the secret of the link and the token of the recall tool from the agent's environment
    and files."""
    text = json.dumps([report["environment"], report["files"]])
    secrets = set(re.findall(r"/w/([A-Za-z0-9_-]{20,})/", text))
    secrets |= set(re.findall(r"Bearer ([A-Za-z0-9_-]{20,})", text))
    names = ("CONTEXTRENDER_WRAP_TOKEN", "CONTEXTRENDER_WRAP_LINK", "OPENAI_PROJECT")
    return secrets | {
        str(report["environment"][name]) for name in names if name in report["environment"]
    }


CALLING = f"""#!{sys.executable}
import http.client, json, os, re, sys, urllib.parse, urllib.request
address = next(word for word in sys.argv if "base_url=" in word).partition("=")[2].strip('"')
for project in (os.environ["OPENAI_PROJECT"], "guess", ""):
    request = urllib.request.Request(
        address + "/chat/completions",
        json.dumps({{"model": "m", "messages": []}}).encode(),
        {{"openai-project": project, "authorization": "Bearer k"}},
    )
    try:
        with urllib.request.urlopen(request) as reply:
            print(reply.status)
    except urllib.error.HTTPError as refused:
        print(refused.code)
secret = os.environ["OPENAI_PROJECT"].split()[0]
for method, target, headers in json.loads(os.environ["REQUESTS"]):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(address).netloc, timeout=30)
    connection.putrequest(method, target.replace("SECRET", secret), skip_host=True)
    for name, value in {{"host": "localhost", "content-length": "2", **headers}}.items():
        connection.putheader(name, value.replace("SECRET", secret))
    connection.endheaders(b"{{}}")
    print(connection.getresponse().status)
print(secret)
"""

CALL = "/w/0/v1/chat/completions"
LINK = {"openai-project": "SECRET"}
WEBSOCKET = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
REQUESTS: list[tuple[str, str, dict[str, str], int]] = [
    *((method, CALL, {}, 404) for method in ("GET", "PUT", "OPTIONS", "TRACE", "CONNECT")),
    *(("POST", target, {}, 404) for target in ("*", "/", "/w", "/w/", "/w/0", "/w//0/v1/x")),
    *(("POST", f"/w/{start}/v1/x", {}, 404) for start in ("..", "%2e%2e/w/0", "guess/0", "%ff")),
    *(("POST", f"/w/{secret}/0/v1/x", {}, 404) for secret in ("SECRETx", "xSECRET", "SECRET%00")),
    ("POST", "/contextrender/status", LINK, 404),
    ("POST", f"http://localhost{CALL}", {}, 404),
    ("POST", f"http://evil.example{CALL}", LINK, 400),
    ("POST", f"/{CALL}", LINK, 400),
    ("GET", "/w/0/v1/responses", WEBSOCKET, 404),
    ("GET", "/w/0/v1/responses", {**WEBSOCKET, **LINK}, 426),
    *(("POST", CALL, {"openai-project": value}, 404) for value in ("SECRETx", "x SECRET", "")),
    ("POST", CALL, {"authorization": "Bearer SECRET", "x-contextrender-link": "x"}, 404),
    *(("POST", f"/w/{path}", {}, 401) for path in ("mcp", "mcp/x", "mcp/../0/v1/x")),
    ("POST", "/w/mcp", {"authorization": "Bearer SECRET"}, 401),
    *(("POST", CALL, {**LINK, "host": host}, 421) for host in ("evil.example", "127.1", "x@[::1]")),
    *(("POST", CALL, {**LINK, "origin": origin}, 403) for origin in ("null", "http://127.0.0.1:1")),
    # With the secret, an escape in the route's name reaches no other address.
    *(("POST", f"/w/{path}", LINK, 404) for path in ("%30/@x/y", "0%2fv1/x", "0@x/y", "0.x/y")),
    *(("POST", f"/w/0/{path}", LINK, 400) for path in ("%2e%2e/x", "..%2fx", "v1/..;/x", "/x/y")),
]
"""What another user or a page may send: method, target, headers and the status of the answer."""


class Provider(Model):
    """A double that answers model calls, and 404 when `wrap` asks whether it is ContextRender."""

    def next(self, request: ModelRequest) -> Reply:
        """Return the reply to a request."""
        return json_reply(chat("hi")) if request.method == "POST" else json_reply({}, 404)


@pytest.mark.parametrize("project", ["", "proj_1"])
def test_requests_without_the_secret_are_refused(
    project: str, environment: dict[str, str], tmp_path: Path, data: Path
) -> None:
    (tmp_path / "codex").write_text(CALLING)
    model = Provider()
    with serving(model, lifespan="off") as provider:
        config = ["-c", f'openai_base_url="{provider}/v1"', "exec"]
        if project:
            environment["OPENAI_PROJECT"] = project
        environment["REQUESTS"] = json.dumps([request[:3] for request in REQUESTS])
        command = [str(BIN / "contextrender"), "wrap", "codex", *config]
        process = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True
        )
    *statuses, secret = process.stdout.split()  # The user's own project follows the secret.
    assert statuses[:3] == ["200", "404", "404"], process.stderr
    answers = zip(REQUESTS, map(int, statuses[3:]), strict=True)
    assert not [(request, status) for request, status in answers if status != request[3]]
    (request,) = [request for request in model.requests if request.method == "POST"]
    assert request.header("openai-project") == (project or None)
    files = {file: file.read_bytes() for file in data.rglob("*") if file.is_file()}
    assert not [file for file, text in files.items() if secret.encode() in text]
    assert "Traceback" not in process.stderr
    assert "upgrade" not in (data / "wrap.log").read_text()

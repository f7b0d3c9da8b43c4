"""Real processes: signals, exit codes, leases and the shared service."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from contextrender_bridge import local_service
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.settings import forget_settings
from contextrender_bridge.client.credentials import Credentials, load_credentials
from contextrender_bridge.leases import any_alive, hold_lease, started_at
from contextrender_bridge.wrap.session import check_access

from tests.server.servers import BIN, forked_server, running_server, serve_command
from tests.support.command import contextrender, printed
from tests.support.programs import answers
from tests.support.provider_double import chat_reply
from tests.support.scripted_model import Model, ModelRequest, Reply, json_reply, serving
from tests.support.transcripts import assistant, call
from tests.support.waiting import wait_until

WAIT = 90.0
WRAP = [str(BIN / "contextrender"), "wrap", "--base-url-env", "OPENAI_BASE_URL", "--"]
AGENT = """
import os, signal, sys, time, pathlib
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
pathlib.Path(sys.argv[1]).write_text(os.environ["OPENAI_BASE_URL"])
time.sleep(600)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    variables = {"CONTEXTRENDER_DATA": str(tmp_path / "data"), "CONTEXTRENDER_IDLE_TIMEOUT": "2"}
    return {**os.environ, **variables, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}


@pytest.fixture
def wrap(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., object]]:
    """Return a function that starts a waiting wrapped agent, which writes its provider's address to
    a file."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str) -> tuple[subprocess.Popen[bytes], Path]:
        address_file = tmp_path / name
        command = [*WRAP, sys.executable, "-c", AGENT, str(address_file)]
        with (tmp_path / f"{name}.err").open("wb") as errors:
            process = subprocess.Popen(command, env=environment, stderr=errors)
        processes.append(process)
        return process, address_file

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_two_runs_share_one_service(
    tmp_path: Path, wrap: Callable[..., tuple[subprocess.Popen[bytes], Path]]
) -> None:
    data = tmp_path / "data"
    (first_process, first), (other, second) = wrap("one"), wrap("other")
    wait_until(
        lambda: first.exists() and second.exists() and second.read_text() and first.read_text()
    )
    output = (tmp_path / "one.err").read_text() + (tmp_path / "other.err").read_text()
    assert output.count("starting the service (usually") == 1
    url = load_credentials(data).url
    # Only the agent knows the listener's secret path.
    route = first.read_text()
    assert httpx.get(route.rpartition("/w/")[0] + "/w/guess/0/v1/models").status_code == 404
    # After wrap is killed, its agent continues and its lease ends.
    first_process.kill()
    first_process.wait()
    assert answers(f"{url}/healthz")
    other.send_signal(signal.SIGTERM)
    assert other.wait(timeout=WAIT) == 7
    assert "no model call was answered" in (tmp_path / "other.err").read_text()
    wait_until(lambda: not answers(f"{url}/healthz"))
    assert not any((data / "leases").iterdir())


@pytest.mark.slow
def test_connections_and_headers_are_limited(
    tmp_path: Path,
    environment: dict[str, str],
    wrap: Callable[..., tuple[subprocess.Popen[bytes], Path]],
) -> None:
    """Another user of the machine can connect to the listener, but does not know its path."""
    environment["CONTEXTRENDER_MAX_CONNECTIONS"] = "2"
    environment["CONTEXTRENDER_HEADER_TIMEOUT"] = "1"
    _, file = wrap("one")
    wait_until(lambda: file.exists() and file.read_text())
    place = urlsplit(file.read_text())
    address = (place.hostname, place.port)
    head = b"GET / HTTP/1.1\r\nhost: localhost\r\nx-large: "

    def answer(content: bytes) -> str:
        with socket.create_connection(address, timeout=WAIT) as connection:
            connection.sendall(content)
            return connection.makefile("rb").readline().decode()

    assert " 431 " in answer(head + b"a" * 2**17)
    assert " 408 " in answer(head)
    with socket.create_connection(address), socket.create_connection(address):
        assert " 429 " in answer(b"")


@pytest.mark.slow
def test_terminal_shows_provider_and_one_time_link(
    environment: dict[str, str], tmp_path: Path
) -> None:
    # The service must still run when its link is opened, however slow the machine is.
    environment["CONTEXTRENDER_IDLE_TIMEOUT"] = "60"
    command = [*WRAP, "true"]
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    process = subprocess.Popen(command, env=environment, stderr=terminal, stdin=subprocess.DEVNULL)
    os.close(terminal)
    data = b""
    with suppress(OSError):  # raised once no process has the terminal open
        while piece := os.read(controller, 4096):
            data += piece
    os.close(controller)
    assert process.wait(timeout=WAIT) == 0
    text = data.decode()
    assert "between true and http://127.0.0.1:9/v1: budget auto" in text
    assert "#token=" not in text
    (url, code) = re.findall(r"(http://\S+)/console/#code=(\S+)", text)[0]
    for status in (200, 401):
        reply = httpx.post(f"{url}/console/sign-in", json={"code": code}, headers={"origin": url})
        assert reply.status_code == status


def test_signal_of_agent_is_passed_on(environment: dict[str, str], tmp_path: Path) -> None:
    """A command without model calls starts no service."""
    (tmp_path / "codex").write_text("#!/bin/sh\nkill -TERM $$\n")
    (tmp_path / "codex").chmod(0o755)
    environment["PATH"] = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    process = subprocess.run([BIN / "contextrender", "wrap", "codex", "login"], env=environment)
    assert process.returncode == -signal.SIGTERM
    assert not (tmp_path / "data").exists()


CALL = """
import json, os, urllib.error, urllib.request
body = json.dumps({"model": "m", "messages": []}).encode()
try:
    urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, timeout=30)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


@pytest.mark.slow
def test_unreachable_provider_is_named_at_start_and_end(environment: dict[str, str]) -> None:
    command = [*WRAP, sys.executable, "-c", CALL]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    first, *_, last = [line for line in process.stderr.splitlines() if "service" not in line]
    address = "the provider's address http://127.0.0.1:9/v1 does not answer (connection refused)."
    assert first == f"contextrender: {address}"
    assert "502" in process.stdout and "127.0.0.1:9" in process.stdout
    assert "no model call was answered: The provider gave no answer (" in last
    assert "127.0.0.1:9" in last


def test_missing_agent_is_explained(environment: dict[str, str], tmp_path: Path) -> None:
    environment["PATH"] = str(tmp_path)
    command: list[str | Path] = [BIN / "contextrender", "wrap", "claude"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 127
    assert process.stderr.count("\n") == 1 and "npm install" in process.stderr


def test_slow_start_is_distinguished_from_a_failed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_service, "START_SECONDS", 0.0)
    log = tmp_path / "log"
    log.write_text("Loading ...")
    with subprocess.Popen(["sleep", "600"]) as server:
        with pytest.raises(CommandError, match=r"did not start within 0 s.*\nLoading") as error:
            local_service.wait_until_ready(server, tmp_path, log)
        assert str(tmp_path) not in str(error.value), "the log of a temporary service is deleted"
        server.kill()
        server.wait()
    with pytest.raises(CommandError, match=r"did not start\. "):
        local_service.wait_until_ready(server, tmp_path, log)


def test_refused_token_is_named_before_agent_runs(
    environment: dict[str, str], credentials: Credentials, tmp_path: Path
) -> None:
    environment |= {"CONTEXTRENDER_URL": credentials.url, "CONTEXTRENDER_TOKEN": "mistyped"}
    command = [*WRAP, "touch", str(tmp_path / "agent-ran")]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (
        1,
        f"contextrender: The token in CONTEXTRENDER_TOKEN is not valid at {credentials.url}: "
        "`contextrender user token NAME`, at the server, makes another.\n",
    )
    assert not (tmp_path / "agent-ran").exists()
    output = contextrender("doctor", environment=environment).stdout
    assert "The token in CONTEXTRENDER_TOKEN is not valid" in " ".join(output.split())


@pytest.mark.parametrize(
    ("status", "code", "is_fatal"),
    [(401, "unauthorized", True), (503, "not_ready", True), (503, "storage_unavailable", False)],
)
def test_failing_service_is_named_before_agent_runs(
    capsys: pytest.CaptureFixture[str], status: int, code: str, is_fatal: bool
) -> None:
    """A damaged store, for example, may be found only after the service's start."""
    model = Model()
    model.answer = lambda _: json_reply({"error": {"code": code, "message": "Why."}}, status)
    with serving(model, lifespan="off") as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTEXTRENDER_TOKEN", "token")
        forget_settings()
        with pytest.raises(CommandError) if is_fatal else nullcontext():
            check_access(url)
    forget_settings()
    assert (capsys.readouterr().err == "contextrender: Why.\n") is not is_fatal


def test_missing_token_of_distant_service_is_named(environment: dict[str, str]) -> None:
    environment["CONTEXTRENDER_URL"] = "http://192.0.2.1"
    data = Path(environment["CONTEXTRENDER_DATA"])
    data.mkdir(mode=0o700)
    Credentials("http://127.0.0.1:1", "local").save(data)
    process = subprocess.run([*WRAP, "true"], env=environment, capture_output=True, text=True)
    assert process.returncode == 1 and "set CONTEXTRENDER_TOKEN" in process.stderr


@pytest.mark.slow
def test_damaged_store_is_named_at_once(environment: dict[str, str]) -> None:
    data = Path(environment["CONTEXTRENDER_DATA"])
    data.mkdir(mode=0o700)
    (data / "store.db").write_bytes(b"no store" * 10_000)
    process = subprocess.run([*WRAP, "true"], env=environment, capture_output=True, text=True)
    last = process.stderr.splitlines()[-1]
    assert last.startswith("contextrender: the service did not start: The store's file is damaged")
    assert process.returncode == 1 and "`contextrender restore`" in last
    assert not _holder(data), "a service that cannot open its store is stopped"


def test_lease_of_earlier_process_does_not_count(tmp_path: Path) -> None:
    pid = os.getpid()
    with hold_lease(tmp_path, pid):
        assert any_alive(tmp_path)
    assert not any_alive(tmp_path)
    (tmp_path / "leases" / f"{pid}-{int(started_at(pid)) - 1}").mkdir()
    assert not any_alive(tmp_path)
    assert list((tmp_path / "leases").iterdir()) == []


@pytest.mark.slow
def test_second_server_keeps_credentials_of_first(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running_server(data) as first:
        with (tmp_path / "second").open("wb") as out:
            second = subprocess.Popen(serve_command(data), stdout=out, stderr=out)
        try:
            wait_until(lambda: "ready" in (tmp_path / "second").read_text())
            assert f"runs already at {first.url}" in (tmp_path / "second").read_text()
            assert load_credentials(data).url == first.url
            first.stop()
            wait_until(lambda: load_credentials(data).url != first.url)
            assert answers(f"{load_credentials(data).url}/healthz")
        finally:
            second.terminate()
            second.wait()


@pytest.mark.parametrize("kind", ["file", "below a file", "not ours"])
def test_invalid_data_folder_is_one_sentence(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "taken"
    place.write_text("")
    data = place if kind == "file" else place / "data"
    if kind == "not ours":
        data = Path("/proc/nothing")
    error = printed("serve", "--port", "0", "--data", data, status=1)
    assert error.count("\n") == 1 and str(data) in error


CALLING = """
import json, os, urllib.request
messages = [{"role": "user", "content": "Follow the links."}]
functions = [{"name": name, "parameters": {"type": "object"}} for name in ("look", "fly")]
tools = [{"type": "function", "function": function} for function in functions]
for turn in range(5):
    body = {"model": "gpt-5.1", "messages": messages, "tools": tools}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        answer = json.load(reply)["choices"][0]["message"]
    for call in answer.get("tool_calls") or ():
        result = {"role": "tool", "tool_call_id": call["id"], "content": "word " * 2000}
        messages += [answer, result]
"""


def scripted_reply(request: ModelRequest) -> Reply:
    """Reply with four tool calls and a final answer; the usage includes 300 tokens of the
    provider."""
    if request.method != "POST":  # wrap checks whether the provider is ContextRender
        return json_reply({}, 404)
    body: dict[str, Any] = request.json
    reply, turn = chat_reply(""), sum(message["role"] == "tool" for message in body["messages"])
    answer = assistant(None, call(f"c{turn}", "look", json.dumps({"turn": turn})))
    reply["choices"][0]["message"] = answer if turn < 4 else assistant("Done.")
    tokens = len(request.body) // 4 + 300
    reply["model"] = body["model"]
    reply["usage"] = {"prompt_tokens": tokens, "completion_tokens": 9, "total_tokens": tokens + 9}
    return json_reply(reply)


def test_run_totals_equal_service_totals(environment: dict[str, str], tmp_path: Path) -> None:
    data = Path(environment["CONTEXTRENDER_DATA"])
    model = Model()
    model.answer = scripted_reply
    with serving(model, lifespan="off") as url, forked_server(data) as server:
        environment |= {"OPENAI_BASE_URL": f"{url}/v1", "CONTEXTRENDER_RENDER_TIMEOUT": "60"}
        words = ["wrap", "--json", "--budget", "3000", "--base-url-env", "OPENAI_BASE_URL", "--"]
        command = [str(BIN / "contextrender"), *words, sys.executable, "-c", CALLING]
        process = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        report = json.loads(process.stderr.splitlines()[-1])
        with server.client() as client:
            sessions = client.post("/walker/list_sessions", json={}).json()["reports"][0][
                "sessions"
            ]
            rows = client.post("/walker/total_savings", json={}).json()["reports"][0]["rows"]
            session_field = {"session": sessions[0]["session"]}
            export = client.post("/walker/export_session", json=session_field).json()["reports"][0]
            import_fields = {"data": export, "session": "again"}
            assert client.post("/walker/import_session", json=import_fields).is_success
            for name in (session_field["session"], "again"):
                savings = client.post("/walker/savings", json={"session": name}).json()["reports"][
                    0
                ]
                inspection = client.post("/walker/inspect_session", json={"session": name}).json()
                session = inspection["reports"][0]["session"]
                assert (
                    savings["totals"]["turns"]
                    == session["turns"]
                    == session["totals"]["calls"]
                    == 5
                )
    usage_totals, declared = sessions[0]["totals"], report["declared"]
    assert (declared["tools"], declared["never_called"]) == (2, 1)
    assert declared["tokens"] == 2 * declared["tokens_never_called"] > 0
    assert (report["calls"], report["fail_open"]) == (5, 0) and report["tokens_omitted"] > 0
    assert usage_totals["calls"] == sum(row["calls_with_usage"] for row in rows) == 5
    before, after = report["tokens_before"], report["tokens_after"]
    assert (usage_totals["full"], usage_totals["prompt"]) == (before, after)
    assert (rows[0]["full_capped"], rows[0]["prompt"], len(rows)) == (before, after, 1)
    for totals in (rows[0], usage_totals):
        assert totals["cost"] == pytest.approx(report["cost"], abs=1e-6)
        assert totals["full_cost"] == pytest.approx(report["full_history_cost"], abs=1e-6)
        assert not totals["is_estimate"]


@pytest.mark.slow
def test_killed_service_is_restarted_at_its_address(
    tmp_path: Path, wrap: Callable[..., tuple[subprocess.Popen[bytes], Path]]
) -> None:
    process, address_file = wrap("one")
    wait_until(lambda: address_file.exists() and address_file.read_text())
    data = tmp_path / "data"
    url = load_credentials(data).url
    (lock,) = {int(pid) for pid in re.findall(r"\d+", _holder(data))}
    os.kill(lock, signal.SIGKILL)
    wait_until(lambda: not answers(url))
    wait_until(lambda: answers(url))
    assert load_credentials(data).url == url
    process.terminate()
    process.wait()
    text = (tmp_path / "one.err").read_text()
    assert "Traceback" not in text and "wrap.log" in text


def _holder(data: Path) -> str:
    """Return the id of the process that serves a data folder."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if b"serve" in words and str(data).encode() in words:
                    return folder.name
    return ""

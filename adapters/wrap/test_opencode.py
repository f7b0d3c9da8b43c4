"""opencode in `contextrender wrap`, and behind the proxy alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
from contextrender_bridge import Credentials
from contextrender_bridge.audit.opencode import read_opencode
from contextrender_bridge.base.setting_kinds import AUTO

from adapters.conftest import Loopback, proxying
from adapters.testing import hosts
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Call, Say, Script, ScriptWithWindow, Step
from adapters.wrap.wrapped import Json, WrappedAgent, check_recorded
from tests.support.scripted_model import ModelRequest, Reply

TASK = "Find out which of the first six hosts are slow."


class FullWindowScript(Script):
    """A model that reports a full window once, in its sixth answer."""

    def answer(self, request: ModelRequest) -> Reply:
        """Return the next step."""
        self.tokens = 39_900 if len(self.requests) == 5 else 9
        return super().answer(request)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Create a folder with a name of fixed length, because every call contains it."""
    with TemporaryDirectory(prefix="contextrender-wrap-opencode-", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture
def opencode(loopback: Loopback, folder: Path) -> WrappedAgent:
    """Create a user with a project that has its own provider."""
    program = node_modules_of("wrap/opencode") / "opencode-linux-x64" / "bin"
    variables = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    wrapped = WrappedAgent(
        loopback, folder, program, {**variables, "MODEL_URL": loopback.model.url}
    )
    variables = wrapped.variables
    for place in ("DATA", "CONFIG", "CACHE", "STATE"):
        variables[f"XDG_{place}_HOME"] = str(wrapped.home / place.lower())
    variables["PWD"] = str(wrapped.work)
    local = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": "{env:MODEL_URL}/v1", "apiKey": "sk-own"},
        "models": {"scripted": {"name": "scripted", "tool_call": True}},
    }
    config = {
        "model": "local/scripted",
        "small_model": "local/scripted",
        "permission": {"*": "allow"},
        "provider": {"local": local},
    }
    (wrapped.work / "opencode.json").write_text(f"// mine\n{json.dumps(config)}")
    return wrapped


def test_continued_session_is_rendered(opencode: WrappedAgent) -> None:
    file = opencode.work / "opencode.json"
    before = file.read_bytes()
    steps = hosts.steps()
    script = Script(
        opencode.loopback.model, [adapt_to_tools(step, opencode.work) for step in steps]
    )
    first = ask(opencode, TASK)
    second = ask(opencode, "And the next three?", "-s", first[0]["sessionID"])
    assert texts_of(first) + texts_of(second) == list(hosts.ANSWERS)
    script.steps = steps
    hosts.check(script)
    assert opencode.report["tokens_omitted"] > 0
    requests = [request for request in opencode.loopback.model.requests if request.method == "POST"]
    assert {request.header("authorization") for request in requests} == {"Bearer sk-own"}
    names = {session["session"] for session in opencode.loopback.sessions()}
    assert names == {first[0]["sessionID"]}
    assert file.read_bytes() == before
    opencode.check_left_nothing()
    check_recorded(read_opencode, opencode.home / "data" / "opencode")


def test_recall_tool_works(opencode: WrappedAgent) -> None:
    look = adapt_to_tools(Call("look", {"host": "host_0_X"}), opencode.work)
    recall = Call("contextrender_recall", {"query": "host_1_X"})
    script = Script(opencode.loopback.model, [look, recall, Say("Done.")])
    assert texts_of(ask(opencode, "Look.")) == ["Done."]
    assert hosts.MARKS[0] in json.dumps(script.requests[2]["messages"][-1])


def test_agent_continues_past_its_window_without_service(opencode: WrappedAgent) -> None:
    """The agent reads 1.5 times as many tokens as its window has."""
    model = opencode.loopback.model
    read = hosts.lengthen(opencode.work, [750] * 9)
    script = ScriptWithWindow(model, [*looks(opencode.work), Say("All.")], added_tokens=40_000)
    credentials = Credentials("http://127.0.0.1:9", "none")
    with proxying(credentials, f"{model.url}/v1") as proxy:
        opencode.variables["MODEL_URL"] = proxy
        assert texts_of(ask(opencode, TASK, wraps=False)) == ["All."]
    assert script.refused_count and read / 4 > 1.5 * script.added_tokens
    for number, marks in enumerate(script.marks_in_requests(hosts.MARKS)[1:]):
        assert number in marks  # the newest result is always visible
    check_pairs(script)


def test_newest_result_of_less_than_8000_tokens_is_complete(
    opencode: WrappedAgent, service: Credentials
) -> None:
    """Nine files of 7,000 tokens exceed the automatic budget, but each is complete when read."""
    model = opencode.loopback.model
    script = Script(model, [*looks(opencode.work), Say("All.")])
    hosts.lengthen(opencode.work, [450] * 9)
    with proxying(service, f"{model.url}/v1", AUTO, "contextrender_cache_aware") as proxy:
        opencode.variables["MODEL_URL"] = proxy
        assert texts_of(ask(opencode, TASK, wraps=False)) == ["All."]
    hosts.check_newest_complete(script, '"role": "tool"', 450)


def test_automatic_compaction_has_all_results(opencode: WrappedAgent, service: Credentials) -> None:
    """If the model reports a full window, the agent's compaction request has all results."""
    file = opencode.work / "opencode.json"
    config = json.loads(file.read_text().removeprefix("// mine\n"))
    limit = {"context": 40_000, "output": 1_000}
    config["provider"]["local"]["models"]["scripted"]["limit"] = limit
    file.write_text(json.dumps(config))
    model = opencode.loopback.model
    script = FullWindowScript(model, [*looks(opencode.work), Say("All.")])
    with proxying(service, f"{model.url}/v1", policy="contextrender_cache_aware") as proxy:
        opencode.variables["MODEL_URL"] = proxy
        assert texts_of(ask(opencode, TASK, wraps=False))[-1] == "All."
        assert httpx.get(f"{proxy}/contextrender/status").json()["fail_open"] == {}
    request_texts = [
        request.body.decode() for request in model.requests if request.method == "POST"
    ]
    (compaction,) = [body for body in request_texts if "context summarization agent" in body]
    assert all(mark in compaction for mark in hosts.MARKS[:6])
    assert (
        len(script.marks_in_requests(hosts.MARKS)[5]) < 5
    )  # the results that the agent's prompt had
    check_pairs(script)


def ask(opencode: WrappedAgent, *words: str, wraps: bool = True) -> list[Json]:
    """Run `opencode run` and return its events."""
    runs = opencode.run if wraps else opencode.run_alone
    process = runs("opencode", "run", "--format", "json", *words)
    return [json.loads(line) for line in process.stdout.splitlines()]


def looks(folder: Path) -> list[Step]:
    """Return nine steps, each of which looks at one host."""
    return [adapt_to_tools(Call("look", {"host": f"host_{n}_X"}), folder) for n in range(9)]


def check_pairs(script: Script) -> None:
    """Check that every request has a result for each call, in order."""
    for body in script.requests:
        messages = body["messages"]
        call_ids = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
        assert call_ids == [m["tool_call_id"] for m in messages if m["role"] == "tool"]


def texts_of(events: list[Json]) -> list[str]:
    return [event["part"]["text"] for event in events if event["type"] == "text"]


def adapt_to_tools(step: Step, folder: Path) -> Step:
    """Return the step as a call of opencode's tools."""
    if not isinstance(step, Call):
        return step
    host = step.arguments["host"]
    if step.name == "restart":
        return Call("bash", {"command": f"./restart {host}", "description": "Restart it"})
    return Call("read", {"filePath": str(folder / f"{host}.txt")})

"""opencode itself with the packed plugin: results leave its calls and come back."""

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from contextrender_bridge import Credentials
from contextrender_bridge.base.wire import Json

from adapters.conftest import Loopback, proxying
from adapters.testing import hosts
from adapters.testing.commands import UNCHANGED, run
from adapters.testing.installs import ADAPTERS, environment, node_modules_of
from adapters.testing.javascript import install
from adapters.testing.scripted import Call, Limited, Say, Script, Step
from tests.support.scripted_model import Asked, Reply

HERE = ADAPTERS / "opencode"
FIRST, SECOND = "Find out which of the first six hosts are slow.", "And of the next three?"


def install_plugin(folder: Path, client: Path) -> None:
    """Installs the plugin and the client there, both as they would be published."""
    packed = folder / "packed"
    packed.mkdir()
    run(["npm", "pack", "--pack-destination", packed], environment(), HERE)
    (plugin,) = packed.iterdir()
    npm = ["npm", "install", "--offline", "--no-audit", "--no-fund", client, plugin]
    run(npm, environment(), folder)


class Full(Script):
    """A model that says once, at its sixth step, that its window is full."""

    def answer(self, asked: Asked) -> Reply:
        """The next step."""
        self.tokens = 39_900 if len(self.asked) == 5 else 9
        return super().answer(asked)


class Project:
    """A folder with the hosts' files, where a user has installed the plugin."""

    def __init__(
        self, folder: Path, opencode: Path, loopback: Loopback, client: Path, **options: object
    ) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        self._opencode = opencode
        self._loopback = loopback
        self.log = ""
        """What opencode has logged: its file may lack the last second."""
        self.work.mkdir()
        for number in range(hosts.SECOND.stop):
            (self.work / f"host_{number}_X.txt").write_text(hosts.finding(number))
        install_plugin(self.work, client)
        config = json.loads((HERE / "opencode.json").read_text())
        config["plugin"][0][1] |= {"budget": hosts.BUDGET, "deadline": 10, **options}
        models = {"scripted": {"name": "scripted", "tool_call": True}}
        config |= {
            "model": "local/scripted",
            "small_model": "local/scripted",
            "permission": {"*": "allow"},
            "provider": {
                "local": {
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": f"{loopback.model.url}/v1", "apiKey": "sk-none"},
                    "models": models,
                }
            },
        }
        (self.work / "opencode.json").write_text(json.dumps(config))

    def leave_to(self, proxy: str, limit: Json | None = None) -> None:
        """No plugin, and another address of the model, which may have a window."""
        file = self.work / "opencode.json"
        config = json.loads(file.read_text()) | {"plugin": []}
        config["provider"]["local"]["options"]["baseURL"] = proxy
        if limit:
            config["provider"]["local"]["models"]["scripted"]["limit"] = limit
            config["compaction"]["auto"] = True
        file.write_text(json.dumps(config))

    def run(self, *arguments: str) -> list[Json]:
        """What `opencode run` tells."""
        told = self._opened("run", "--print-logs", "--format", "json", *arguments)
        return [json.loads(line) for line in told.splitlines()]

    def stored(self, session: str) -> str:
        """A session as opencode keeps it."""
        return self._opened("export", session)

    def steps(self) -> list[Step]:
        """The hosts' task with opencode's own tools."""
        return [self.step(step) for step in hosts.steps()]

    def _opened(self, *arguments: str) -> str:
        places = ("DATA", "CONFIG", "CACHE", "STATE")
        variables = self._loopback.environment(
            HOME=str(self.home),
            PWD=str(self.work),
            OPENCODE_DISABLE_AUTOUPDATE="1",
            OPENCODE_DISABLE_MODELS_FETCH="1",
            **{f"XDG_{place}_HOME": str(self.home / place.lower()) for place in places},
        )
        for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
            # The configuration's model is the only one.
            del variables[name]
        done = run([self._opencode, *arguments], variables, self.work)
        self.log += done.stderr
        return done.stdout

    def step(self, step: Step) -> Step:
        if not isinstance(step, Call):
            return step
        host = step.arguments["host"]
        if step.name != "look":
            return Call("bash", {"command": f"echo restarted {host}", "description": "Restart it"})
        if int(host.split("_")[1]) in hosts.FIRST:
            return Call("bash", {"command": f"cat {host}.txt", "description": "Look at it"})
        return Call("read", {"filePath": str(self.work / f"{host}.txt")})


@pytest.fixture(scope="session")
def tools() -> Path:
    """opencode itself, and what the plugin is checked with."""
    return node_modules_of("opencode/runtime")


@pytest.fixture(scope="session")
def opencode(tools: Path) -> Path:
    """The program that the package opencode-ai puts in place."""
    return tools / "opencode-linux-x64" / "bin" / "opencode"


@pytest.fixture
def deaf() -> Iterator[str]:
    """An address where no answer comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_two_runs_of_a_session(
    tmp_path: Path, opencode: Path, loopback: Loopback, client_package: Path
) -> None:
    project = Project(tmp_path, opencode, loopback, client_package, bypass_tools=["read"])
    script = Script(loopback.model, project.steps())
    first = project.run(FIRST)
    session = first[0]["sessionID"]
    second = project.run("-s", session, SECOND)
    assert _said(first) + _said(second) == list(hosts.ANSWERS)
    assert all(event["part"]["state"]["status"] == "completed" for event in _tools(first + second))
    script.steps = hosts.steps()
    hosts.check(script)
    # The second turn's are looked at by `read`.
    assert set(hosts.SECOND) <= script.seen(hosts.MARKS)[-1]
    for body in script.asked:
        _check_pairs(body["messages"])
    stored = project.stored(session)
    assert all(mark in stored for mark in hosts.MARKS)
    assert UNCHANGED not in project.log
    recorded = {found["session"]: found["turns"] for found in loopback.sessions()}
    assert recorded == {session: len(script.steps) - 1}
    assert len(loopback.client.inspect_session(session)["lines"]) == 1


def test_a_subagent_has_its_own_session(
    tmp_path: Path, opencode: Path, loopback: Loopback, client_package: Path
) -> None:
    project = Project(tmp_path, opencode, loopback, client_package)
    task = {"description": "Look", "prompt": "Look at it.", "subagent_type": "general"}
    look = project.steps()[0]
    script = Script(loopback.model, [Call("task", task), look, Say("It is fast."), Say("Done.")])
    events = project.run("Have somebody look at the first host.")
    assert _said(events) == ["Done."]
    assert len(script.asked) == 4
    turns = {found["session"]: found["turns"] for found in loopback.sessions()}
    assert turns.pop(events[0]["sessionID"]) == 1
    assert list(turns.values()) == [1]
    assert UNCHANGED not in project.log


def test_a_service_that_does_not_answer(
    tmp_path: Path, opencode: Path, loopback: Loopback, client_package: Path, deaf: str
) -> None:
    project = Project(tmp_path, opencode, loopback, client_package, url=deaf, deadline=0.2)
    script = Script(loopback.model, project.steps()[:7])
    assert _said(project.run(FIRST)) == [hosts.ANSWERS[0]]
    assert script.seen(hosts.MARKS) == [set(range(number)) for number in range(7)]
    assert f"{UNCHANGED} (late), 6 so far" in project.log


def test_past_the_window_it_goes_on_without_the_service(
    tmp_path: Path, opencode: Path, loopback: Loopback, client_package: Path
) -> None:
    """By the proxy: what it read has 1.5 windows."""
    project = Project(tmp_path, opencode, loopback, client_package)
    read = hosts.lengthen(project.work, [750] * 9)
    steps = [project.step(Call("look", {"host": f"host_{n}_X"})) for n in range(9)]
    script = Limited(loopback.model, [*steps, Say("All.")], room=40_000)
    away = Credentials("http://127.0.0.1:9", "none")
    with proxying(away, f"{loopback.model.url}/v1") as proxy:
        project.leave_to(f"{proxy}/v1")
        assert _said(project.run(FIRST)) == ["All."]
    assert script.refused and read / 4 > 1.5 * script.room
    for number, seen in enumerate(script.seen(hosts.MARKS)[1:]):
        assert number in seen  # the newest is always there
    for body in script.asked:
        _check_pairs(body["messages"])


def test_it_compacts_by_itself_behind_the_proxy(
    tmp_path: Path, opencode: Path, loopback: Loopback, client_package: Path, service: Credentials
) -> None:
    """The model says that its window is full: the summary is made of all that was read."""
    project = Project(tmp_path, opencode, loopback, client_package)
    steps = [project.step(Call("look", {"host": f"host_{n}_X"})) for n in range(9)]
    script = Full(loopback.model, [*steps, Say("All.")])
    with proxying(service, f"{loopback.model.url}/v1", policy="contextrender_frozen") as proxy:
        project.leave_to(f"{proxy}/v1", {"context": 40_000, "output": 1_000})
        assert _said(project.run(FIRST))[-1] == "All."
        assert httpx.get(f"{proxy}/contextrender/status").json()["fail_open"] == {}
    asked = [one.body.decode() for one in loopback.model.asked if one.method == "POST"]
    (compacting,) = [body for body in asked if "context summarization agent" in body]
    assert all(mark in compacting for mark in hosts.MARKS[:6])
    assert len(script.seen(hosts.MARKS)[5]) < 5  # what the agent itself was shown of them
    for body in script.asked:
        _check_pairs(body["messages"])


def test_the_plugin_alone(
    tmp_path: Path, tools: Path, loopback: Loopback, client_package: Path
) -> None:
    """Its types and its own tests, in a copy with what they need."""
    copy = tmp_path / "plugin"
    shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns("node_modules", "runtime"))
    install(copy, tools, client_package)
    run(["npm", "run", "check"], environment(), copy)
    told = run(["npm", "test"], loopback.environment(), copy).stdout
    assert "# fail 0" in told
    assert "# skipped 0" in told


def _said(events: list[Json]) -> list[str]:
    return [event["part"]["text"] for event in events if event["type"] == "text"]


def _tools(events: list[Json]) -> list[Json]:
    return [event for event in events if event["type"] == "tool_use"]


def _check_pairs(messages: list[Json]) -> None:
    called = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    assert called == [message["tool_call_id"] for message in messages if message["role"] == "tool"]

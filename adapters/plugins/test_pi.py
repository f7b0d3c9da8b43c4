"""The plugin in pi, in the newest and the oldest supported version.

pi has no subagents.
"""

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from contextrender_bridge import Credentials

from adapters.conftest import Loopback
from adapters.plugins.lines import Lines, running
from adapters.plugins.user import (
    MARK,
    Counting,
    User,
    count_text,
    false_answers,
    false_service,
    looks,
)
from adapters.testing import hosts
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Call, Json, Say, Script, Step

PROGRAMS = {"newest": "dist/bundle/cli.js", "oldest": "dist/cli.js"}
TASK = "Look at six hosts."
WINDOW = 60_000


@pytest.fixture(params=PROGRAMS)
def pi(
    request: pytest.FixtureRequest, loopback: Loopback, tmp_path_factory: pytest.TempPathFactory
) -> User:
    """Create a user of pi whose model has a small window."""
    modules = node_modules_of("plugins/pi")
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "")
    node = modules / f"node-linux-{machine}" / "bin" / "node"
    if not node.is_file():
        pytest.skip("there is no package of Node for this machine")
    folder = tmp_path_factory.mktemp("pi")
    program = folder / "pi"
    script = modules / request.param / PROGRAMS[request.param]
    program.write_text(f'#!/bin/sh\nexec {node} {script} "$@"\n')
    program.chmod(0o755)
    user = User(loopback, folder, program, "pi", {"PI_OFFLINE": "1"})
    model = {"id": "scripted", "contextWindow": WINDOW, "maxTokens": 1_000}
    address = {"baseUrl": f"{loopback.model.url}/v1", "apiKey": "sk-own"}
    provider = {**address, "api": "openai-completions", "models": [model]}
    choice = {"defaultProvider": "local", "defaultModel": "scripted"}
    kept = {"compaction": {"keepRecentTokens": 200}}
    own = user.home / ".pi" / "agent"
    own.mkdir(parents=True)
    (own / "models.json").write_text(json.dumps({"providers": {"local": provider}}))
    (own / "settings.json").write_text(json.dumps({**choice, **kept}))
    return user


class Pi:
    """A running pi that is given commands."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.session = str(self.call("get_state")["sessionId"])

    def call(self, command: str, **fields: str) -> Json:
        """Return what pi replies to a command."""
        self.lines.send(type=command, **fields)
        reply = self.lines.wait(lambda event: event.get("command") == command)
        assert reply["success"], reply
        data: Json = reply.get("data") or {}
        return data

    def ask(self, question: str) -> None:
        """Have the agent answer."""
        self.call("prompt", message=question)
        self.lines.wait(lambda event: event["type"] == "agent_end")
        self.rest()

    def rest(self) -> None:
        """Wait until nothing runs."""
        while any(self.call("get_state")[name] for name in ("isStreaming", "isCompacting")):
            time.sleep(0.05)

    @property
    def notices(self) -> list[str]:
        """The lines that the plugin showed to the user."""
        requests = [one for one in self.lines.events if one["type"] == "extension_ui_request"]
        return [one["message"] for one in requests if one["method"] == "notify"]

    @property
    def statuses(self) -> list[str]:
        """Return what the plugin wrote in the status line, in order."""
        requests = [one for one in self.lines.events if one["type"] == "extension_ui_request"]
        return [one.get("statusText") or "" for one in requests if one["method"] == "setStatus"]


@contextmanager
def running_pi(user: User, *words: str) -> Iterator[Pi]:
    """Run pi until the block ends."""
    with running(user, "--mode", "rpc", *words) as lines:
        yield Pi(lines)


def adapt_to_tools(step: Step) -> Step:
    """Return the step with pi's tools."""
    if isinstance(step, Call) and step.name == "look":
        return Call("read", {"path": f"{step.arguments['host']}.txt"})
    return step


def script_of(user: User, *steps: Step, kind: type[Script] = Script) -> Script:
    return kind(user.loopback.model, [adapt_to_tools(step) for step in steps])


def test_manual_compactions_are_replaced_and_resumed(pi: User) -> None:
    """The second text is selected from all results and replaces the first one."""
    pi.install()
    script = script_of(pi, *looks(3), Say("Done."), *looks(6)[3:], Say("Resumed."))
    with running_pi(pi) as agent:
        agent.ask("Look at three hosts.")
        agent.call("compact")
        agent.ask("And now?")
        agent.ask("And the next three?")
        agent.call("compact")
        first, second = agent.notices
    # pi keeps the newest messages beside the text.
    assert first.startswith("ContextRender kept 2 of 2 results in ")
    assert second.startswith("ContextRender kept 5 of 5 results in ")
    with running_pi(pi, "--continue") as agent:
        assert agent.session
        agent.ask("And then?")
    # No model wrote a summary.
    assert len([request for request in pi.loopback.model.asked if request.method == "POST"]) == 10
    texts = [json.dumps(body["messages"]) for body in script.requests]
    for text in texts[4:]:
        assert text.count(MARK) == 1
        assert [text.count(mark) for mark in hosts.MARKS[:3]] == [1] * 3
        assert text.count("Look at three hosts.") == 1
    assert [texts[-1].count(mark) for mark in hosts.MARKS[:6]] == [1] * 6
    (session,) = pi.loopback.sessions()
    assert session["session"] == agent.session
    assert (session["branches"], session["results"]) == (1, 5)


def test_repeated_automatic_compactions(pi: User) -> None:
    """The text does not grow."""
    pi.install("--tokens", "8000")
    hosts.lengthen(pi.work, [400] * 9)
    script = script_of(pi, *looks(9) * 4, kind=Counting)
    with running_pi(pi) as agent:
        for _ in range(4):
            agent.ask("Look at the hosts.")
        notices = agent.notices
    assert len(notices) >= 2, notices
    assert all(line.startswith("ContextRender kept ") for line in notices)
    assert max(count_text(body["messages"], MARK) for body in script.requests) == 1
    sizes = [len(json.dumps(body["messages"])) for body in script.requests]
    drops = [n for n in range(1, len(sizes)) if sizes[n] < sizes[n - 1]]
    assert len(drops) == len(notices)
    assert all(later - earlier > 3 for earlier, later in pairwise(drops)), drops
    assert sizes[drops[-1]] < 1.2 * sizes[drops[0]], (sizes, drops)
    (session,) = pi.loopback.sessions()
    assert session["session"] == agent.session


def test_recall_finds_omitted_results(pi: User) -> None:
    pi.install("--tokens", "2000")
    hosts.lengthen(pi.work, [400] * 6)
    recall = Call("recall", {"query": "host_1_X"})
    script = script_of(pi, *looks(6), recall, Say("Done."))
    with running_pi(pi) as agent:
        agent.ask(TASK)
        agent.call("compact")
        agent.ask("Recall.")
    before, after = script.requests[-2:]
    assert "row 00200" not in json.dumps(before["messages"])
    assert "row 00200" in json.dumps(after["messages"][-1])


@pytest.mark.parametrize("failure", ["down", *false_answers()])
def test_agent_writes_summary_without_answer(pi: User, failure: str) -> None:
    pi.install()
    pi.forbid_start()
    script = script_of(pi, *looks(6), Say("Done."))
    with false_service(false_answers().get(failure, false_answers()["slow"])) as credentials:
        down = Credentials("http://127.0.0.1:9", "none")
        pi.use_service(down if failure == "down" else credentials)
        with running_pi(pi) as agent:
            agent.ask(TASK)
            agent.call("compact")
            agent.ask("And now?")
            (line,) = agent.notices
    assert line.startswith("ContextRender left this compaction to pi. ")
    assert ("did not answer within 5 s" in line) == (failure == "slow")
    after = json.dumps(script.requests[-1]["messages"])
    assert MARK not in after
    assert "A title" in after  # the double's reply to requests that are no step of the agent


def test_killed_service_is_restarted_for_next_compaction(pi: User) -> None:
    pi.install()
    script = script_of(pi, *looks(6), Say("Done."), *looks(9)[6:], Say("Done."))
    with pi.started_service(), running_pi(pi) as agent:
        agent.ask(TASK)
        pi.use_service(Credentials("http://127.0.0.1:9", "none"))
        agent.call("compact")
        agent.ask("And now?")
        pi.wait_for_service()
        assert {program.name for program in pi.lease_holders()} == {"node"}
        agent.ask("And the next three?")
        agent.call("compact")
        agent.ask("And then?")
        first, second = agent.notices
    assert "is not running; it is started for the next time" in first
    assert second.startswith("ContextRender kept ")
    assert [count_text(body["messages"], MARK) for body in script.requests[7:]] == [0] * 5 + [1]


def test_each_call_is_rendered(pi: User) -> None:
    pi.install("--mode", "render")
    hosts.lengthen(pi.work, [1_000] * 9)
    script = script_of(pi, *looks(9), Say("Done."))
    with running_pi(pi) as agent:
        agent.ask("Look at nine hosts.")
        pi.forbid_start()
        assert agent.statuses[-1].startswith("ContextRender: ")
        pi.use_service(Credentials("http://127.0.0.1:9", "none"))
        agent.ask("And now?")
        assert agent.statuses[-1] == ""
    read = sum((pi.work / f"host_{n}_X.txt").stat().st_size for n in range(9))
    sizes = [len(json.dumps(body["messages"])) for body in script.requests]
    assert sizes[-2] < 0.6 * read < sizes[-1]  # without the service the whole history is sent
    for number, marks in enumerate(script.marks_in_requests(hosts.MARKS)[1:9]):
        assert number in marks
    posts = [one for one in pi.loopback.model.asked if one.method == "POST"]
    assert {one.header("authorization") for one in posts} == {"Bearer sk-own"}
    assert agent.session in {session["session"] for session in pi.loopback.sessions()}


def test_uninstall_removes_everything(pi: User) -> None:
    script = script_of(pi, Say("Done."), Say("Done."))
    before = pi.files()
    pi.install()
    pi.install()
    with running_pi(pi) as agent:
        agent.ask("Hello.")
    pi.contextrender("uninstall", "pi")
    plugin_files = {name for name in pi.files() if "contextrender" in name}
    assert plugin_files == set()
    assert {name: text for name, text in pi.files().items() if name in before} == before
    with running_pi(pi) as agent:
        agent.ask("Hello.")
    assert "recall" in json.dumps(script.requests[0]["tools"])
    assert "recall" not in json.dumps(script.requests[1]["tools"])

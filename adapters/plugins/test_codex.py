"""The plugin in Codex, in the newest and the oldest supported version.

`codex app-server` is what Codex's terminal interface runs. It can compact on request and reports
the hook's message. Codex's subagents are not tested: they are sessions with their own hooks.
"""

import json
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge import Credentials

from adapters.codex.test_codex import adapt_to_tools, is_agents, spoken
from adapters.conftest import Loopback
from adapters.plugins.lines import Lines, running
from adapters.plugins.user import (
    MARK,
    TEXT_END,
    User,
    count_text,
    false_answers,
    false_service,
    looks,
)
from adapters.testing import hosts
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Call, Json, Say, Script, Step
from adapters.wrap.test_codex import Namespaced
from tests.support.scripted_model import ModelRequest, Reply, json_reply

CONFIG = """
model_provider = "mine"
[model_providers.mine]
name = "Mine"
base_url = "{url}/v1"
env_key = "MY_KEY"
wire_api = "responses"
"""
MODEL = "gpt-5.5"
OPTIONS = ["--json", "--skip-git-repo-check", "--sandbox", "danger-full-access", "--model", MODEL]
COMPACTS = ["-c", "model_auto_compact_token_limit=10"]
TASK = "Look at six hosts."


@pytest.fixture(params=["newest", "oldest"])
def codex(request: pytest.FixtureRequest, loopback: Loopback, tmp_path: Path) -> User:
    """Create a user of Codex."""
    (program,) = (node_modules_of("plugins/codex") / request.param).rglob("bin/codex")
    user = User(loopback, tmp_path, program, "codex", {"MY_KEY": "sk-own"})
    config_of(user).parent.mkdir()
    config_of(user).write_text(CONFIG.format(url=loopback.model.url))
    return user


def config_of(codex: User) -> Path:
    return codex.home / ".codex" / "config.toml"


def ask(codex: User, *words: str) -> list[Json]:
    """Return the events of `codex exec`."""
    process = codex.run("exec", "--dangerously-bypass-hook-trust", *OPTIONS, *words)
    return [json.loads(line) for line in process.stdout.splitlines()]


def script_of(codex: User, *steps: Step, kind: type[Script] = Script) -> Script:
    return kind(codex.loopback.model, [adapt_to_tools(step) for step in steps], is_agents)


@dataclass
class AppServer:
    """A running `codex app-server`, with one session in the folder that the user works in."""

    codex: User
    lines: Lines
    thread: str = ""
    calls: int = 0

    def call(self, method: str, **params: Any) -> Json:
        """Return the result of a method."""
        self.calls += 1
        number = self.calls
        self.lines.send(id=number, method=method, params=params)
        reply = self.lines.wait(lambda event: event.get("id") == number and "method" not in event)
        assert "result" in reply, reply
        result: Json = reply["result"]
        return result

    def trust(self) -> None:
        """Trust the plugin's hook, and a project, as the terminal interface does when asked."""
        (folder,) = self.call("hooks/list", cwds=[str(self.codex.work)])["data"]
        (hook,) = folder["hooks"]
        assert hook["trustStatus"] == "untrusted"
        trust = {
            "hooks.state": {hook["key"]: {"trusted_hash": hook["currentHash"]}},
            "projects": {str(self.codex.work): {"trust_level": "trusted"}},
        }
        edits = [
            {"keyPath": path, "mergeStrategy": "upsert", "value": value}
            for path, value in trust.items()
        ]
        self.call("config/batchWrite", edits=edits, reloadUserConfig=True)

    def ask(self, question: str) -> None:
        """Have the agent answer."""
        if not self.thread:
            access = {"approvalPolicy": "never", "sandbox": "danger-full-access"}
            place = {"model": MODEL, "cwd": str(self.codex.work)}
            self.thread = self.call("thread/start", **place, **access)["thread"]["id"]
        self.call("turn/start", threadId=self.thread, input=[{"type": "text", "text": question}])
        self.lines.wait(lambda event: event.get("method") == "turn/completed")

    def compact(self) -> None:
        """Compact the history."""
        self.call("thread/compact/start", threadId=self.thread)
        self.lines.wait(lambda event: event.get("method") == "turn/completed")

    def wait_for_tools(self) -> None:
        """Wait until the plugin's MCP server has started."""

        def is_ready(event: Json) -> bool:
            is_status = event.get("method") == "mcpServer/startupStatus/updated"
            return is_status and event["params"]["status"] == "ready"

        if not any(map(is_ready, self.lines.events)):
            self.lines.wait(is_ready)

    @property
    def notices(self) -> list[str]:
        """The lines that the hook showed to the user."""
        hooks = [event for event in self.lines.events if event.get("method") == "hook/completed"]
        assert {hook["params"]["run"]["status"] for hook in hooks} == {"completed"}
        entries = [entry for hook in hooks for entry in hook["params"]["run"]["entries"]]
        return [entry["text"] for entry in entries if entry["kind"] == "warning"]


@contextmanager
def serving_app(codex: User) -> Iterator[AppServer]:
    """Run `codex app-server` until the block ends; the user trusts the hook."""
    with running(codex, "app-server") as lines:
        server = AppServer(codex, lines)
        server.call("initialize", clientInfo={"name": "test", "version": "1"})
        lines.send(method="initialized")
        server.trust()
        yield server


def test_stopped_service_is_started_and_kept_running(codex: User) -> None:
    """The service has stopped, and its credentials are still in the data folder."""
    codex.install()
    codex.use_service(Credentials("http://127.0.0.1:9", "none"))
    holders: list[set[Path]] = []

    class Watch(Script):
        """Record during a model call which programs hold a lease of the service."""

        def answer(self, asked: ModelRequest) -> Reply:
            codex.wait_for_service()
            holders.append(codex.lease_holders())
            return super().answer(asked)

    script_of(codex, Say("Done."), kind=Watch)
    with codex.started_service():
        assert spoken(ask(codex, "Hello.")) == ["Done."]
    assert holders[-1] == {codex.program.resolve()}


def test_results_are_added_to_the_summary(codex: User) -> None:
    """The user requests the compaction."""
    codex.install()
    script = script_of(codex, *looks(6), Say("Done."))
    with serving_app(codex) as agent:
        agent.ask(TASK)
        agent.compact()
        agent.ask("And now?")
        (line,) = agent.notices
    assert line.startswith("ContextRender added 6 of 6 results in ")
    after = json.dumps(script.requests[-1]["input"])
    assert after.count(MARK) == after.count(TEXT_END) == 1
    assert after.index("produced a summary of its thinking") < after.index(MARK)
    assert [after.count(mark) for mark in hosts.MARKS[:6]] == [1] * 6
    assert after.count(TASK) == 1  # Codex keeps what the user said
    (session,) = codex.loopback.sessions()
    assert session["session"] == agent.thread


def test_automatic_compaction_after_resume(codex: User) -> None:
    """The second text is selected from all results and replaces the first one."""
    codex.install()
    steps = [*looks(3), Say("Done."), *looks(6)[3:], Say("Done.")]
    script = script_of(codex, *steps)
    first = ask(codex, "Look at three hosts.")
    resume = ["resume", str(first[0]["thread_id"])]
    ask(codex, *resume, *COMPACTS, "And now?")
    ask(codex, *resume, "And the next three?")
    ask(codex, *resume, *COMPACTS, "And then?")
    texts = [json.dumps(body["input"]) for body in script.requests]
    assert texts[3].count(MARK) == 0
    for text in texts[4:]:
        assert text.count(MARK) == 1
        assert [text.count(mark) for mark in hosts.MARKS[:3]] == [1] * 3
    assert [texts[-1].count(mark) for mark in hosts.MARKS[:6]] == [1] * 6
    (session,) = codex.loopback.sessions()
    assert (session["branches"], session["results"]) == (1, 6)


def test_recall_finds_omitted_results(codex: User) -> None:
    codex.install("--tokens", "2000")
    hosts.lengthen(codex.work, [200] * 6)
    script = script_of(codex, *looks(6), kind=Namespaced)
    with serving_app(codex) as agent:
        agent.ask(TASK)
        agent.compact()
        agent.wait_for_tools()
        recall = Call("recall", {"session": agent.thread, "query": "host_1_X"})
        script.steps = [*script.steps, recall, Say("Done.")]
        agent.ask("Recall.")
    before, after = script.requests[-2:]
    assert "row 00150" not in json.dumps(before["input"])
    assert agent.thread in json.dumps(before["input"])
    assert "row 00150" in json.dumps(after["input"][-1])


@pytest.mark.parametrize("failure", false_answers())
def test_agents_summary_is_kept_without_answer(codex: User, failure: str) -> None:
    codex.install()
    script = script_of(codex, *looks(6), Say("Done."))

    def answer(asked: ModelRequest) -> Reply:
        healthy = json_reply({"status": "ok"})
        return healthy if asked.path == "/healthz" else false_answers()[failure](asked)

    with false_service(answer) as credentials:
        codex.use_service(credentials)
        with serving_app(codex) as agent:
            agent.ask(TASK)
            agent.compact()
            agent.ask("And now?")
            (line,) = agent.notices
    assert line.startswith("ContextRender left this compaction to Codex. ")
    assert ("did not answer within 5 s" in line) == (failure == "slow")
    after = json.dumps(script.requests[-1]["input"])
    assert MARK not in after
    assert "produced a summary of its thinking" in after


def test_killed_service_is_restarted_for_next_compaction(codex: User) -> None:
    codex.install()
    script = script_of(codex, *looks(6), Say("Done."), Say("Done."))
    with codex.started_service(), serving_app(codex) as agent:
        agent.ask(TASK)
        codex.use_service(Credentials("http://127.0.0.1:9", "none"))
        agent.compact()
        agent.ask("And now?")
        codex.wait_for_service()
        agent.compact()
        agent.ask("And then?")
        first, second = agent.notices
    assert "is not running; it is started for the next time" in first
    assert second.startswith("ContextRender added 6 of 6 results")
    assert [count_text(body["input"], MARK) for body in script.requests[-2:]] == [0, 1]


def test_uninstall_removes_everything_but_codex_entries(codex: User) -> None:
    before = tomllib.loads(config_of(codex).read_text())
    codex.install()
    script = script_of(codex, Say("Done."), Say("Done."))
    with serving_app(codex) as agent:
        agent.ask("Hello.")
    installed = config_of(codex).read_text()
    codex.install()
    assert config_of(codex).read_text() == installed  # the hook is still trusted
    codex.contextrender("uninstall", "codex")
    projects = {"projects": {str(codex.work): {"trust_level": "trusted"}}}
    assert tomllib.loads(config_of(codex).read_text()) == {**before, **projects}
    assert spoken(ask(codex, "Hello.")) == ["Done."]
    assert len(script.requests) == 2

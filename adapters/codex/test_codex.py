"""Codex itself, with its own shell tool: results leave its requests and come back."""

import json
from pathlib import Path

import pytest
from contextrender_bridge.base.wire import Json

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import run
from adapters.testing.installs import environment, node_modules_of
from adapters.testing.scripted import Call, Say, Script, Step, has_tools
from tests.support.scripted_model import Asked, Reply, response_events, stream

CONFIG = Path(__file__).parent / "config.toml"
PROXY = "http://127.0.0.1:8700"


class Code(Script):
    """A script whose calls are code for the one tool that newer models have."""

    def answer(self, asked: Asked) -> Reply:
        """The same, said as a call of a custom tool."""
        number = len(self.asked)
        reply = super().answer(asked)
        step = self.steps[number] if number < min(len(self.asked), len(self.steps)) else None
        if not isinstance(step, Call):
            return reply
        run = f"await tools.exec_command({json.dumps(step.arguments)})"
        call = {"type": "custom_tool_call", "name": "exec", "input": f"text(({run}).output)"}
        names = {"id": f"item_{number}", "call_id": f"call_{number}", "status": "completed"}
        return stream(response_events([{**call, **names}]), named=True)


def is_agents(body: Json) -> bool:
    """Whether a request offers tools; to newer models they are an item of the input."""
    return has_tools(body) or body["input"][0]["type"] == "additional_tools"


@pytest.mark.parametrize(("model", "kind"), [("gpt-5.5", Script), ("gpt-6.1-sol", Code)])
def test_two_turns_of_a_session(
    loopback: Loopback, tmp_path: Path, model: str, kind: type[Script]
) -> None:
    modules = node_modules_of("codex")
    home, work = tmp_path / "codex", tmp_path / "work"
    home.mkdir()
    (home / "config.toml").write_text(CONFIG.read_text().replace(PROXY, loopback.proxy))
    hosts.write_files(work)
    known = hosts.steps()
    script = kind(loopback.model, [as_its_own(step) for step in known], is_agents)
    own = environment(OPENAI_API_KEY="sk-none", CODEX_HOME=str(home), HOME=str(tmp_path))

    def ask(*words: str) -> list[Json]:
        """The events of `codex exec`."""
        command = [str(modules / ".bin" / "codex"), "exec", "--json", "--skip-git-repo-check"]
        command += ["--sandbox", "danger-full-access", "--model", model, *words]
        done = run(command, own, work)
        return [json.loads(line) for line in done.stdout.splitlines()]

    first = ask("Find out which of the first six hosts are slow.")
    thread = first[0]["thread_id"]
    second = ask("resume", thread, "And of the next three? Restart those that are slow.")
    assert (*spoken(first), *spoken(second)) == hosts.ANSWERS
    assert second[0]["thread_id"] == thread
    script.steps = known
    hosts.check(script)
    (session,) = loopback.sessions()
    assert session["session"] == thread
    assert session["turns"] == len(known) - 1
    assert session["branches"] == 1
    assert loopback.failures() == {}


def as_its_own(step: Step) -> Step:
    """The step with Codex's tool."""
    if isinstance(step, Say):
        return step
    host = step.arguments["host"]
    command = f"./restart {host}" if step.name == "restart" else f"cat {host}.txt"
    return Call("exec_command", {"cmd": command})


def spoken(events: list[Json]) -> list[str]:
    """What the agent said."""
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item["text"] for item in items if item["type"] == "agent_message"]

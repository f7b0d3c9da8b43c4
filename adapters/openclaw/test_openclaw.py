"""OpenClaw with its own tools, over three APIs: results are omitted and restored."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from contextrender_bridge.audit.openclaw import read_openclaw
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.replies import SessionView

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import run
from adapters.testing.installs import environment, node_modules_of
from adapters.testing.scripted import Call, Say, Script, Step
from adapters.wrap.wrapped import check_recorded

pytestmark = pytest.mark.slow

CONFIG = Path(__file__).parent / "openclaw.json"
PROXY = "http://127.0.0.1:8700"
INTERNAL = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
QUESTIONS = (
    "Find out which of the first six hosts are slow.",
    "And of the next three? Restart those that are slow.",
)
CHAT, RESPONSES, MESSAGES = "openai-completions", "openai-responses", "anthropic-messages"
NAMES = {CHAT: "hosts:0", RESPONSES: "hosts"}
"""The session's name by API. With Messages, OpenClaw sends none."""


class OpenClaw:
    """OpenClaw in its own folder, with the configuration that users copy."""

    def __init__(self, loopback: Loopback, home: Path, api: str = CHAT) -> None:
        """Write that configuration, with another address and API, and without settings that use
        anything outside the folder.
        """
        modules = _node_modules()
        self.work = home / "work"
        self.config = home / "openclaw.json"
        self.openclaw = modules / ".bin" / "openclaw"
        hosts.write_files(self.work)
        config = json.loads(CONFIG.read_text().replace(PROXY, loopback.proxy))
        provider = config["models"]["providers"]["contextrender"]
        provider["api"] = api
        if api == MESSAGES:
            provider["baseUrl"] = loopback.proxy
        config["agents"]["defaults"]["workspace"] = str(self.work)
        # Its memory would request embeddings from OpenAI.
        config["memory"] = {"search": {"enabled": False}}
        self.config.write_text(json.dumps(config))
        # The packages include Node; on other systems the system's Node is used.
        path = f"{modules / '.bin'}{os.pathsep}{os.environ['PATH']}"
        self._environment = environment(
            PATH=path,
            HOME=str(home),
            OPENCLAW_STATE_DIR=str(home / "state"),
            OPENCLAW_CONFIG_PATH=str(self.config),
            OPENAI_API_KEY="sk-none",
        )

    def run(self, *words: str) -> Json:
        """Run `openclaw agent ... --json` and return its output."""
        command = [self.openclaw, "agent", *words, "--json"]
        process = run(command, self._environment, self.work)
        report: Json = json.loads(process.stdout)
        return report


@pytest.mark.parametrize("api", [CHAT, RESPONSES, MESSAGES])
def test_two_turns_of_a_session_are_rendered(api: str, loopback: Loopback, tmp_path: Path) -> None:
    openclaw = OpenClaw(loopback, tmp_path, api)
    steps = hosts.steps()
    script = Script(loopback.model, adapt_to_tools(steps))
    for question, answer in zip(QUESTIONS, hosts.ANSWERS, strict=True):
        report = openclaw.run("--local", "--session-id", "hosts", "-m", question)
        assert [payload["text"] for payload in report["payloads"]] == [answer]
    script.steps = steps
    hosts.check(script)
    for items in inputs_of(script):
        (place,) = (number for number, item in enumerate(items) if is_internal(item))
        # With Responses, the context remains beside the user's message until the next message.
        assert place == len(items) - 1 or api == RESPONSES
    session = wait_for_session(loopback, QUESTIONS)
    hosts.check_turns(session, steps)
    if api in NAMES:
        assert session["session"] == NAMES[api]
    check_recorded(read_openclaw, tmp_path / "state")


def test_exec_task_is_rendered(loopback: Loopback, tmp_path: Path) -> None:
    openclaw = OpenClaw(loopback, tmp_path)
    steps = [step for step in hosts.steps() if step != Say(hosts.ANSWERS[0])]
    script = Script(loopback.model, adapt_to_tools(steps))
    task = " ".join(QUESTIONS)
    options = ("--config", str(openclaw.config), "--cwd", str(openclaw.work))
    report = openclaw.run("exec", task, *options)
    assert (report["status"], report["final"]) == ("ok", hosts.ANSWERS[1])
    assert report["toolSummary"]["failures"] == 0
    script.steps = steps
    hosts.check(script)
    assert all(is_internal(items[-1]) for items in inputs_of(script))
    session = wait_for_session(loopback, [task])
    hosts.check_turns(session, steps)
    assert session["session"] == f"{report['sessionId']}:0"


def inputs_of(script: Script) -> list[list[Json]]:
    """Return the messages or items of each request."""
    return [body.get("messages") or body["input"] for body in script.requests]


def is_internal(item: Json) -> bool:
    """Return whether an item is the context that OpenClaw adds to each call."""
    if item.get("role") != "user" or isinstance(item["content"], str):
        return False
    text: str = item["content"][0].get("text", "")
    return text.startswith(INTERNAL)


def wait_for_session(loopback: Loopback, questions: Sequence[str]) -> SessionView:
    """Return the only session; check that it has one branch, all findings and only the user's
    messages."""
    (session,) = loopback.sessions()
    (branch,) = loopback.client.export_session(session["session"])["branches"]
    spoken = [message["content"] for message in branch["messages"] if message["role"] == "user"]
    for text, question in zip(spoken, questions, strict=True):
        assert question in text
    assert all(mark in json.dumps(branch["messages"]) for mark in hosts.MARKS)
    assert loopback.failures() == {}
    return session


def adapt_to_tools(steps: Sequence[Step]) -> list[Step]:
    """Return the steps as calls of OpenClaw's tools. Every second file is read by a command."""
    adapted_steps: list[Step] = []
    for number, step in enumerate(steps):
        if isinstance(step, Say):
            adapted_steps.append(step)
        elif step.name == "restart":
            adapted_steps.append(Call("exec", {"command": f"./restart {step.arguments['host']}"}))
        elif number % 2:
            adapted_steps.append(Call("exec", {"command": f"cat {step.arguments['host']}.txt"}))
        else:
            adapted_steps.append(Call("read", {"path": f"{step.arguments['host']}.txt"}))
    return adapted_steps


def _node_modules() -> Path:
    # With an older Node, npm would stop at OpenClaw's install script.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("npm_config_ignore_scripts", "true")
        return node_modules_of("openclaw")

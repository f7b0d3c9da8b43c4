"""pi, whose mode `rpc` takes commands and writes events as lines of JSON."""

import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from adapters.plugins.agents.base import TOKEN, Agent
from adapters.plugins.lines import Lines, running
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Call, Json

PROGRAMS = {"newest": "dist/bundle/cli.js", "oldest": "dist/cli.js"}
WINDOW = 60_000


def node_program() -> Path:
    """Return the Node that pi runs in, or skip the test."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "")
    node = node_modules_of("plugins/pi") / f"node-linux-{machine}" / "bin" / "node"
    if not node.is_file():
        pytest.skip("there is no package of Node for this machine")
    return node


@dataclass
class RunningPi:
    """A running pi that is given commands."""

    lines: Lines
    session: str = ""

    def call(self, command: str, **fields: str) -> Json:
        """Send a command to pi and return its reply."""
        self.lines.send(type=command, **fields)
        reply = self.lines.wait(lambda event: event.get("command") == command)
        assert reply["success"], reply
        data: Json = reply.get("data") or {}
        return data

    def ask(self, question: str) -> None:
        """Ask the agent a question, and wait until nothing runs."""
        self.call("prompt", message=question)
        self.lines.wait(lambda event: event["type"] == "agent_end")
        while any(self.call("get_state")[name] for name in ("isStreaming", "isCompacting")):
            time.sleep(0.05)

    def compact(self) -> None:
        """Compact the history."""
        self.call("compact")

    @property
    def notices(self) -> list[str]:
        """The lines that the plugin showed to the user."""
        return [event["message"] for event in self._requests("notify")]

    @property
    def statuses(self) -> list[str]:
        """The texts of the plugin's status line."""
        return [event.get("statusText") or "" for event in self._requests("setStatus")]

    def _requests(self, method: str) -> list[Json]:
        requests = [each for each in self.lines.events if each["type"] == "extension_ui_request"]
        return [request for request in requests if request["method"] == method]


class Pi(Agent):
    """The tests' driver of pi, which has no subagents of its own."""

    title = "pi"
    modes = ("compact", "render")

    def find_program(self) -> Path:
        """Return a command that runs pi in its own Node, or skip the test."""
        script = node_modules_of("plugins/pi") / self.version / PROGRAMS[self.version]
        program = self.user.folder / "run-pi"
        program.write_text(f'#!/bin/sh\nexec {node_program()} {script} "$@"\n')
        program.chmod(0o755)
        return program

    def configure(self) -> None:
        """Write the user's settings of the agent, so that it uses the scripted model."""
        self.user.variables["PI_OFFLINE"] = "1"
        model = {"id": "scripted", "contextWindow": WINDOW, "maxTokens": 1_000}
        address = {"baseUrl": f"{self.user.loopback.model.url}/v1", "apiKey": "sk-own"}
        provider = {**address, "api": "openai-completions", "models": [model]}
        choice = {"defaultProvider": "local", "defaultModel": "scripted"}
        compaction = {"compaction": {"keepRecentTokens": 200}}
        self.folder.mkdir(parents=True)
        (self.folder / "models.json").write_text(json.dumps({"providers": {"local": provider}}))
        (self.folder / "settings.json").write_text(json.dumps({**choice, **compaction}))

    @property
    def folder(self) -> Path:
        """The folder of the user's settings."""
        return self.user.home / ".pi" / "agent"

    @property
    def executable(self) -> Path:
        """The file that runs as the agent's process."""
        return node_program().resolve()

    @contextmanager
    def running(self, session: str = "") -> Iterator[RunningPi]:
        """Run pi until the block ends."""
        with running(self.user, "--mode", "rpc", *(["--continue"] if session else [])) as lines:
            agent = RunningPi(lines)
            agent.session = str(agent.call("get_state")["sessionId"])
            assert session in ("", agent.session)
            yield agent

    def log_in(self) -> None:
        """Write the files that pi's `/login` stores for an account at Anthropic.

        Anthropic's address is set to the scripted model's.
        """
        login = {"type": "oauth", "access": TOKEN, "refresh": "none", "expires": 4_000_000_000_000}
        files = {
            "auth.json": {"anthropic": login},
            "models.json": {"providers": {"anthropic": {"baseUrl": self.user.loopback.model.url}}},
            "settings.json": {"defaultProvider": "anthropic", "defaultModel": "claude-haiku-4-5"}
            | {"compaction": {"keepRecentTokens": 200}},
        }
        for name, content in files.items():
            (self.folder / name).write_text(json.dumps(content))

    def shrink_window(self) -> None:
        """Do nothing, because the window is small already."""

    def configuration(self) -> Any:
        """Return the settings and the extensions."""
        names = ("models.json", "settings.json")
        extensions = [str(path) for path in self.user.home.rglob("*contextrender*")]
        return [json.loads((self.folder / name).read_text()) for name in names], extensions

    def look(self, host: str) -> Call:
        """Return the call by which the agent reads a host's file."""
        return Call("read", {"path": f"{host}.txt"})

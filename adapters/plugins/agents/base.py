"""The interface through which the tests of the plugins use every agent."""

import json
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pytest
from contextrender_bridge.plugins.hosts.base import LIBRARY

from adapters.plugins.user import UsageScript, User
from adapters.testing.scripted import Call, Json, Say, Script, Step, has_tools

_COMPACT = "export async function compact("
_BROKEN_COMPACT = f"{_COMPACT}) {{ throw new TypeError('broken') }}\nasync function unused("


TOKEN = "sk-ant-oat01-own"
"""The user's bearer token of a login by OAuth. pi and Claude Code recognise such tokens by their
beginning.
"""


class RunningAgent(Protocol):
    """An agent's program with one session."""

    @property
    def session(self) -> str:
        """The agent's own id of the session."""

    @property
    def notices(self) -> list[str]:
        """The lines that the plugin showed to the user."""

    @property
    def statuses(self) -> list[str]:
        """The texts of the plugin's status line, in order; empty texts clear it."""

    def ask(self, question: str) -> None:
        """Ask the agent a question, and wait for its answer."""

    def compact(self) -> None:
        """Compact the history, as the agent's command for this does."""


class Agent(ABC):
    """An agent in one version, with the user who runs it."""

    title: str
    modes: tuple[str, ...]
    first_words: str = "ContextRender kept "
    """The beginning of the line after a compaction by the plugin."""
    recall_tool: str = "recall"
    has_status: bool = True
    adds_to_summary: bool = False
    """True if the agent always writes a summary of its own, which the text follows."""
    compacts_subagents: bool = True
    """True if the agent asks the plugin for the text of a subagent's compaction."""
    subagent: Call | None = None
    """The call that starts a subagent, if there are any."""

    def __init__(self, user: User, version: str) -> None:
        """Prepare the agent for its user."""
        self.user = user
        self.version = version
        self.user.program.symlink_to(self.find_program())
        self.configure()

    @abstractmethod
    def find_program(self) -> Path:
        """Return the agent's program, or skip the test."""

    @abstractmethod
    def configure(self) -> None:
        """Write the user's settings of the agent, so that it uses the scripted model."""

    @property
    def executable(self) -> Path:
        """The file that runs as the agent's process."""
        return self.user.program.resolve()

    def can_render(self) -> bool:
        """Return whether this version has the mode that renders each call."""
        return "render" in self.modes

    def clean(self) -> None:  # noqa: B027
        """Remove what other tests would find. For most agents there is nothing to remove."""

    @abstractmethod
    def running(self, session: str = "") -> AbstractContextManager[RunningAgent]:
        """Run the agent until the block ends, with a new session or a resumed one."""

    @abstractmethod
    def shrink_window(self) -> None:
        """Set a window so small that the agent compacts by itself from about 40,000 tokens on."""

    def log_in(self) -> None:
        """Log the user in by OAuth, with `TOKEN` instead of a key.

        Skip the test if the login needs a browser.
        """
        pytest.skip(f"{self.title} has no login by OAuth that settings alone can give")

    @abstractmethod
    def configuration(self) -> Any:
        """Return the user's configuration, without values that only the agent itself writes."""

    @abstractmethod
    def look(self, host: str) -> Call:
        """Return the call by which the agent reads a host's file."""

    def recall(self, running: RunningAgent, query: str) -> Call:
        """Return a call of the plugin's tool."""
        return Call(self.recall_tool, {"query": query})

    def break_hook(self) -> None:
        """Change the plugin's hook so that it throws at a compaction."""
        config = Path(self.user.variables.get("XDG_CONFIG_HOME", self.user.folder))
        for path in {*self.user.folder.rglob(LIBRARY), *config.rglob(LIBRARY)}:
            path.write_text(path.read_text().replace(_COMPACT, _BROKEN_COMPACT))

    def is_own_call(self, body: Json) -> bool:
        """Return whether a request is a step of the agent, and not for a summary or a title."""
        return has_tools(body)

    def script(self, *steps: Step, kind: type[Script] = Script) -> Script:
        """Return a script with which the model answers the agent's requests by these steps.

        A call of the examples' tool `look` becomes the agent's own call that reads a host's file.
        """
        own_steps = [
            self.look(step.arguments["host"])
            if isinstance(step, Call) and step.name == "look"
            else step
            for step in steps
        ]
        return kind(self.user.loopback.model, own_steps, self.is_own_call)

    def delegate(self, *steps: Step) -> list[Json]:
        """Script an agent whose subagent takes these steps. Return the list of their requests."""
        assert self.subagent
        return self.script(self.subagent, *steps, Say("Done."), kind=UsageScript).requests

    def history(self, body: Json) -> list[Json]:
        """Return the messages of a request."""
        messages: list[Json] = body["messages"]
        return messages

    def texts(self, script: Script) -> list[str]:
        """Return the history of each request, as text."""
        return [json.dumps(self.history(body)) for body in script.requests]

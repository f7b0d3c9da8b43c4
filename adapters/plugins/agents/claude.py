"""Claude Code, whose print mode takes messages and writes events as lines of JSON."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapters.plugins.agents.base import TOKEN, Agent
from adapters.plugins.lines import Lines, running
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Call, Json, has_tools

STREAMS = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
TOOLS = "Read,Bash,Task,Agent,mcp__contextrender__recall"
OPTIONS = ["--model", "claude-opus-5-5", "--allowedTools", TOOLS]
SUMMARY_REQUEST = "Your task is to create a detailed summary"


@dataclass
class RunningClaude:
    """A running `claude -p`."""

    lines: Lines

    @property
    def session(self) -> str:
        """The id of the session."""
        return next(str(e["session_id"]) for e in self.lines.events if "session_id" in e)

    @property
    def notices(self) -> list[str]:
        """The lines that the plugin showed to the user."""
        return [str(event["text"]) for event in self._events("ui_log")]

    @property
    def statuses(self) -> list[str]:
        """The texts of the plugin's status line."""
        return [str(event.get("text") or "") for event in self._events("ui_status")]

    def _events(self, kind: str) -> list[Json]:
        return [event for event in self.lines.events if event.get("subtype") == kind]

    def ask(self, question: str) -> None:
        """Ask the agent a question, and wait for its answer."""
        self.lines.send(type="user", message={"role": "user", "content": question})
        self.lines.wait(lambda event: event.get("type") == "result")

    def compact(self) -> None:
        """Compact the history."""
        self.ask("/compact")


class Claude(Agent):
    """The tests' driver of Claude Code, by its stream of JSON lines (`claude -p`)."""

    title = "Claude Code"
    recall_tool = "mcp__contextrender__recall"
    modes = ("compact", "after-summary", "render")
    subagent = Call(
        "Task",
        {"description": "Look", "prompt": "Look at the hosts.", "run_in_background": False}
        | {"subagent_type": "general-purpose"},
    )

    def find_program(self) -> Path:
        """Return the agent's program, or skip the test."""
        return node_modules_of("plugins/claude") / self.version / "claude"

    def configure(self) -> None:
        """Write the user's settings of the agent, so that it uses the scripted model."""
        self.user.variables |= {
            "ANTHROPIC_BASE_URL": self.user.loopback.model.url,
            "ANTHROPIC_API_KEY": "sk-own",
            "DISABLE_AUTOUPDATER": "1",
        }

    @contextmanager
    def running(self, session: str = "") -> Iterator[RunningClaude]:
        """Run `claude -p` until the block ends."""
        resume = ["--resume", session] if session else []
        with running(self.user, "-p", *STREAMS, *OPTIONS, *resume) as lines:
            yield RunningClaude(lines)

    def can_render(self) -> bool:
        """Return whether this version has the mode that renders each call."""
        return self.version == "newest"

    def log_in(self) -> None:
        """Set the token that the user gets from `claude setup-token`."""
        del self.user.variables["ANTHROPIC_API_KEY"]
        self.user.variables["CLAUDE_CODE_OAUTH_TOKEN"] = TOKEN

    def shrink_window(self) -> None:
        """Set the smallest window that Claude Code accepts."""
        self.user.variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = "100000"

    def configuration(self) -> Any:
        """Return the settings, without the empty lists of plugins that Claude Code leaves."""
        path = self.user.home / ".claude" / "settings.json"
        if not path.is_file():
            # Begin with a setting of the user's own, which the plugin must keep.
            path.parent.mkdir(exist_ok=True)
            path.write_text('{"cleanupPeriodDays": 30}')
        settings = {name: value for name, value in json.loads(path.read_text()).items() if value}
        return settings, list(self.user.data.glob("plugins/*"))

    def look(self, host: str) -> Call:
        """Return the call by which the agent reads a host's file."""
        return Call("Read", {"file_path": str(self.user.work / f"{host}.txt")})

    def is_own_call(self, body: Json) -> bool:
        """Return whether a request is a step of the agent, and not for a summary or a title."""
        return has_tools(body) and SUMMARY_REQUEST not in json.dumps(body["messages"])

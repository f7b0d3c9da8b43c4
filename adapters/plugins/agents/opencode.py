"""opencode. Its terminal interface runs `opencode serve`; its events have what is shown there."""

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from adapters.plugins.agents.base import Agent
from adapters.plugins.lines import SECONDS, running
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Call, Json
from tests.support.programs import free_port
from tests.support.waiting import wait_until

LIMIT = {"context": 40_000, "output": 1_000}


@dataclass
class RunningServer:
    """A running `opencode serve`, with the events that it sends and one session."""

    url: str
    session: str = ""
    events: list[Json] = field(default_factory=list)

    def post(self, path: str, **fields: object) -> Json:
        """Return the answer to a request."""
        reply = httpx.post(f"{self.url}{path}", json=fields, timeout=SECONDS)
        assert reply.is_success, reply.text
        answer: Json = reply.json()
        return answer

    def ask(self, question: str) -> None:
        """Ask the agent a question, and wait for its answer."""
        parts = [{"type": "text", "text": question}]
        self.post(f"/session/{self.session}/message", parts=parts)
        self.wait_for_events()

    def compact(self) -> None:
        """Compact the history."""
        model = {"providerID": "local", "modelID": "scripted"}
        self.post(f"/session/{self.session}/summarize", **model)

    def listen(self) -> None:
        """Store the server's events until it ends.

        The path `/event` of version 1.17.0 does not have the lines that a plugin shows.
        """
        with (
            suppress(httpx.HTTPError),
            httpx.stream("GET", f"{self.url}/global/event", timeout=None) as reply,
        ):
            for line in reply.iter_lines():
                if line.startswith("data:"):
                    self.events.append(json.loads(line.removeprefix("data:"))["payload"])

    def wait_for_events(self) -> None:
        """Wait until every event has come that the server has sent so far."""
        mark = f"events until now {len(self.events)}"
        self.post("/tui/show-toast", message=mark, variant="info")
        wait_until(lambda: mark in self._toasts())

    def _toasts(self) -> list[str]:
        toasts = [event for event in [*self.events] if event["type"] == "tui.toast.show"]
        return [event["properties"]["message"] for event in toasts]

    @property
    def notices(self) -> list[str]:
        """The lines that the plugin showed to the user."""
        return [message for message in self._toasts() if message.startswith("ContextRender")]

    @property
    def statuses(self) -> list[str]:
        """No text: there is no status line."""
        return []


class OpenCode(Agent):
    """The tests' driver of opencode, by `opencode serve`.

    It always writes its own summary. The plugin replaces that summary in each prompt.
    """

    title = "opencode"
    recall_tool = "contextrender_recall"
    modes = ("compact", "after-summary", "render")
    has_status = False
    subagent = Call(
        "task", {"description": "Look", "prompt": "Look at the hosts.", "subagent_type": "general"}
    )

    def find_program(self) -> Path:
        """Return the agent's program, or skip the test."""
        return node_modules_of("plugins/opencode") / self.version / "bin" / "opencode"

    @property
    def folder(self) -> Path:
        """The folder of settings. opencode installs packages there when it first starts."""
        return self.user.folder.parent / f"opencode-{self.version}"

    def configure(self) -> None:
        """Write the user's settings of the agent, so that it uses the scripted model."""
        user = self.user
        self.folder.mkdir(exist_ok=True)
        switches = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        user.variables |= {**switches, "PWD": str(user.work)}
        for place in ("DATA", "CACHE", "STATE"):
            user.variables[f"XDG_{place}_HOME"] = str(user.home / f".{place.lower()}")
        user.variables["XDG_CONFIG_HOME"] = str(self.folder)
        local = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{user.loopback.model.url}/v1", "apiKey": "sk-own"},
            "models": {"scripted": {"name": "scripted", "tool_call": True, "limit": LIMIT}},
        }
        config = {
            "model": "local/scripted",
            "small_model": "local/scripted",
            "permission": {"*": "allow"},
            "compaction": {"tail_turns": 2, "preserve_recent_tokens": 8_000},
            "provider": {"local": local},
        }
        (user.work / "opencode.json").write_text(json.dumps(config))

    @contextmanager
    def running(self, session: str = "") -> Iterator[RunningServer]:
        """Run `opencode serve` until the block ends."""
        with running(self.user, "serve", "--port", str(free_port())) as lines:
            first = next(line for line in lines.output if "listening on" in line)
            server = RunningServer(first.split()[-1], session)
            listener = threading.Thread(target=server.listen, daemon=True)
            listener.start()
            wait_until(lambda: server.events, seconds=300)  # the server says that it is connected
            server.session = session or str(server.post("/session")["id"])
            yield server
        listener.join()

    def shrink_window(self) -> None:
        """Do nothing, because the window is small already."""

    def configuration(self) -> Any:
        """Return the settings and the plugins. opencode itself adds the address of its schema."""
        config = json.loads((self.user.work / "opencode.json").read_text())
        config.pop("$schema", None)
        plugins = self.folder.rglob("*contextrender*")
        return config, [str(path) for path in plugins]

    def clean(self) -> None:
        """Remove the plugin from the settings that other tests have, too."""
        shutil.rmtree(self.folder / "opencode" / "plugins", ignore_errors=True)

    def look(self, host: str) -> Call:
        """Return the call by which the agent reads a host's file."""
        return Call("read", {"filePath": str(self.user.work / f"{host}.txt")})

"""Codex. Its terminal interface runs `codex app-server`, which can compact when asked.

Long because it has that server's protocol, the user's settings and logins, and a subagent's script.
"""

import base64
import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from adapters.codex.test_codex import is_agents
from adapters.plugins.agents.base import TOKEN, Agent, RunningAgent
from adapters.plugins.lines import Lines, running
from adapters.plugins.user import UsageScript, User
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Call, Json, Say, Script, Step
from adapters.wrap.test_codex import NamespaceScript
from tests.support.scripted_model import ModelRequest, Reply

CONFIG = """
model_provider = "mine"
[model_providers.mine]
name = "Mine"
base_url = "{url}/v1"
env_key = "MY_KEY"
wire_api = "responses"
"""
MODEL = "gpt-5.5"
AGENT_ID = "AGENT-ID"
SPAWNED_AGENT = re.compile(rb'\\"agent_id\\":\\"([\w-]+)')
"""The id of a subagent, in the result of the call that starts it."""


def web_token(claims: Json) -> str:
    """Return an unsigned JSON web token."""
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return ".".join([base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts] + ["x"])


class DelegationScript(NamespaceScript, UsageScript):
    """A model that waits for its subagent."""

    def answer(self, request: ModelRequest) -> Reply:
        """Return the reply with the subagent's id in the place of `AGENT_ID`."""
        reply = super().answer(request)
        if match := SPAWNED_AGENT.search(request.body):
            reply.chunks = [chunk.replace(AGENT_ID.encode(), match[1]) for chunk in reply.chunks]
        return reply


@dataclass
class AppServer:
    """A running `codex app-server`, with one session in the folder that the user works in."""

    user: User
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

    def open(self, session: str) -> None:
        """Start a session, or resume one."""
        self.call("initialize", clientInfo={"name": "test", "version": "1"})
        self.lines.send(method="initialized")
        self.trust()
        place = {"model": MODEL, "cwd": str(self.user.work)}
        access = {"approvalPolicy": "never", "sandbox": "danger-full-access"}
        resumed = {"threadId": session} if session else {}
        method = "thread/resume" if session else "thread/start"
        self.thread = self.call(method, **resumed, **place, **access)["thread"]["id"]

    def trust(self) -> None:
        """Trust the plugin's hook, and a project, as the terminal interface does when asked."""
        (folder,) = self.call("hooks/list", cwds=[str(self.user.work)])["data"]
        trust = {
            "hooks.state": {
                hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in folder["hooks"]
            },
            "projects": {str(self.user.work): {"trust_level": "trusted"}},
        }
        edits = [
            {"keyPath": path, "mergeStrategy": "upsert", "value": value}
            for path, value in trust.items()
        ]
        self.call("config/batchWrite", edits=edits, reloadUserConfig=True)

    @property
    def session(self) -> str:
        """The id of the thread."""
        return self.thread

    def ask(self, question: str) -> None:
        """Ask the agent a question, and wait for its answer."""
        self.call("turn/start", threadId=self.thread, input=[{"type": "text", "text": question}])
        self.wait_for_turn()

    def compact(self) -> None:
        """Compact the history."""
        self.call("thread/compact/start", threadId=self.thread)
        self.wait_for_turn()

    def wait_for_turn(self) -> None:
        """Wait until a turn of this session is complete. A subagent is a session of its own."""

        def is_own_end(event: Json) -> bool:
            is_end = event.get("method") == "turn/completed"
            return is_end and event["params"]["threadId"] == self.thread

        self.lines.wait(is_own_end)

    def wait_for_tools(self) -> None:
        """Wait until the plugin's MCP server has started."""

        def is_ready(event: Json) -> bool:
            is_status = event.get("method") == "mcpServer/startupStatus/updated"
            return is_status and event["params"]["status"] == "ready"

        if not any(map(is_ready, self.lines.events)):
            self.lines.wait(is_ready)

    @property
    def notices(self) -> list[str]:
        """The lines that the hook showed to the user, and Codex's own about a hook that failed."""
        hooks = [event for event in self.lines.events if event.get("method") == "hook/completed"]
        entries = [entry for hook in hooks for entry in hook["params"]["run"]["entries"]]
        return [entry["text"] for entry in entries if entry["kind"] in ("warning", "error")]

    @property
    def statuses(self) -> list[str]:
        """No text: there is no status line."""
        return []


class Codex(Agent):
    """The tests' driver of Codex, by `codex app-server`."""

    title = "Codex"
    modes = ("after-summary",)
    first_words = "ContextRender added "
    has_status = False
    adds_to_summary = True
    compacts_subagents = False
    subagent = Call("spawn_agent", {"message": "Look at the hosts."})

    def find_program(self) -> Path:
        """Return the agent's program, or skip the test."""
        (program,) = (node_modules_of("plugins/codex") / self.version).rglob("bin/codex")
        return program

    def configure(self) -> None:
        """Write the user's settings of the agent, so that it uses the scripted model."""
        self.user.variables["MY_KEY"] = "sk-own"
        self._file.parent.mkdir()
        self._file.write_text(CONFIG.format(url=self.user.loopback.model.url))

    @contextmanager
    def running(self, session: str = "") -> Iterator[AppServer]:
        """Run `codex app-server` until the block ends.

        `AppServer.open` also trusts the plugin's hook, which a user must do once.
        """
        with running(self.user, "app-server") as lines:
            server = AppServer(self.user, lines)
            server.open(session)
            yield server

    def log_in(self) -> None:
        """Write what a login with ChatGPT stores."""
        text = self._file.read_text()
        self._file.write_text(text.replace('env_key = "MY_KEY"', "requires_openai_auth = true"))
        claims = {"chatgpt_plan_type": "pro", "chatgpt_account_id": "account"}
        identity = {"email": "user@example.com", "exp": 4_000_000_000}
        tokens = {
            "id_token": web_token({**identity, "https://api.openai.com/auth": claims}),
            "access_token": TOKEN,
            "refresh_token": "none",
            "account_id": "account",
        }
        login = {"tokens": tokens, "last_refresh": datetime.now(UTC).isoformat()}
        self._file.with_name("auth.json").write_text(json.dumps(login))

    def shrink_window(self) -> None:
        """Set the limit of tokens in the configuration."""
        text = self._file.read_text()
        self._file.write_text(f"model_auto_compact_token_limit = 40000\n{text}")

    def configuration(self) -> Any:
        """Return the configuration without the trust in the project."""
        config = tomllib.loads(self._file.read_text())
        config.pop("projects", None)
        return config

    def look(self, host: str) -> Call:
        """Return the call by which the agent reads a host's file."""
        return Call("exec_command", {"cmd": f"cat {host}.txt"})

    def recall(self, running: RunningAgent, query: str) -> Call:
        """Return a call of the tool of the MCP server, once that has started."""
        assert isinstance(running, AppServer)
        running.wait_for_tools()
        return Call("recall", {"session": running.session, "query": query})

    def is_own_call(self, body: Json) -> bool:
        """Return whether a request is a step of the agent, and not for a summary."""
        return is_agents(body)

    def script(self, *steps: Step, kind: type[Script] = NamespaceScript) -> Script:
        """Return a script with which the model answers the agent's requests by these steps."""
        return super().script(*steps, kind=kind)

    def delegate(self, *steps: Step) -> list[Json]:
        """Script an agent whose subagent takes these steps. Return the list of their requests.

        The agent and its subagent make their calls at the same time.
        """
        requests: list[Json] = []
        subagent = self.script(*steps, kind=UsageScript)
        wait = Call("wait_agent", {"targets": [AGENT_ID], "timeout_ms": 600_000})
        agent = self.script(self.subagent, wait, Say("Done."), kind=DelegationScript)

        def answer(request: ModelRequest) -> Reply:
            script = subagent if request.header("x-openai-subagent") else agent
            number = len(script.requests)
            reply = script.answer(request)
            requests.extend(script.requests[number:])
            return reply

        self.user.loopback.model.answer = answer
        return requests

    def history(self, body: Json) -> list[Json]:
        """Return the messages of a request."""
        items: list[Json] = body["input"]
        return items

    def break_hook(self) -> None:
        """Change the hook so that it ends with an exception."""
        text = self._file.read_text()
        self._file.write_text(text.replace("plugins.codex_hook ", "plugins.no_such_module "))

    @property
    def _file(self) -> Path:
        return self.user.home / ".codex" / "config.toml"

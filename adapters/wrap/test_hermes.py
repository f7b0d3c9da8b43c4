"""Hermes in `contextrender wrap`."""

import json
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from contextrender_bridge.audit.hermes import read_hermes

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import CommandResult
from adapters.testing.installs import python_of
from adapters.testing.scripted import Call, Say, Script, Step
from adapters.wrap.wrapped import WrappedAgent, check_recorded

QUIET = """
memory: {nudge_interval: 0}
skills: {creation_nudge_interval: 0}
security: {tirith_enabled: false, allow_lazy_installs: false}
compression: {enabled: false}
"""
NAMED_PROVIDER = """
model: {default: m, provider: "custom:local"}
providers:
  local: {base_url: "URL/v1", key_env: MY_KEY, api_mode: API, extra_headers: {x-mine: "yes"}}
"""
BARE = """
model: {default: m, provider: custom, base_url: "URL/v1", api_key: "${MY_KEY}"}
"""
CLAUDE = """
model: {default: claude-sonnet-5, provider: anthropic, base_url: "URL/anthropic"}
"""
CONFIGS = {
    "chat": NAMED_PROVIDER.replace("API", "chat_completions"),
    "responses": NAMED_PROVIDER.replace("API", "codex_responses"),
    "messages": NAMED_PROVIDER.replace("API", "anthropic_messages"),
    "bare": BARE,
    "anthropic": CLAUDE,
}
CHAT = ("chat", "-Q", "--yolo")


@pytest.fixture
def hermes(loopback: Loopback, tmp_path: Path) -> WrappedAgent:
    """Create a user whose key is in Hermes' `.env`."""
    wrapped = WrappedAgent(loopback, tmp_path, python_of("wrap/hermes").parent)
    home = wrapped.home / ".hermes"
    home.mkdir()
    update_check = {"ts": time.time(), "behind": 0, "rev": None, "ver": "0.19.0"}
    (home / ".update_check").write_text(json.dumps(update_check))
    (home / ".env").write_text("MY_KEY=sk-own\nANTHROPIC_API_KEY=sk-own\n")
    return wrapped


def configure(hermes: WrappedAgent, kind: str) -> Path:
    """Write one of the configurations."""
    file = hermes.home / ".hermes" / "config.yaml"
    file.write_text(CONFIGS[kind].replace("URL", hermes.loopback.model.url) + QUIET)
    return file


def with_its_tools(step: Step) -> Step:
    """Return a step of the hosts' task as a call of Hermes' tools."""
    if not isinstance(step, Call):
        return step
    host = step.arguments["host"]
    if step.name == "look":
        return Call("read_file", {"path": f"{host}.txt"})
    return Call("terminal", {"command": f"touch {host}"})


def count_complete_findings(home: Path) -> int:
    """Return the number of findings that are complete in Hermes' own session."""
    with closing(sqlite3.connect(home / "state.db")) as store:
        results = store.execute("SELECT content FROM messages WHERE role = 'tool'").fetchall()
    return sum(any(f"{mark}." in text for mark in hosts.MARKS) for (text,) in results)


def name_of(result: CommandResult) -> str:
    """Return the session's name from Hermes' output."""
    match = re.search(r"^session_id: (\S+)$", result.stderr, re.MULTILINE)
    assert match, result.stderr
    return match[1]


@pytest.mark.parametrize("kind", CONFIGS)
def test_continued_session_is_rendered(hermes: WrappedAgent, kind: str) -> None:
    file = configure(hermes, kind)
    before = file.read_bytes()
    steps = hosts.steps()
    script = Script(hermes.loopback.model, [*map(with_its_tools, steps), Say("Bye.")])
    tools = ("-t", "file,terminal")
    first = hermes.run("hermes", *CHAT, *tools, "-q", "Read the first six hosts' files.")
    assert hermes.report["tokens_omitted"] > 0
    name = name_of(first)
    second = hermes.run("hermes", *CHAT, *tools, "--resume", name, "-q", "And of the next three?")
    assert name_of(second) == name
    assert first.stdout.strip().endswith(hosts.ANSWERS[0])
    assert second.stdout.strip().endswith(hosts.ANSWERS[1])
    script.steps = steps
    hosts.check(script)
    assert count_complete_findings(hermes.home / ".hermes") == len(hosts.MARKS)
    # For a loopback address, Hermes also checks without a key whether it is Ollama.
    requests = [
        r for r in hermes.loopback.model.requests if r.method == "POST" and "/api/" not in r.path
    ]
    assert {r.header("authorization") or r.header("x-api-key") for r in requests} <= {
        "Bearer sk-own",
        "sk-own",
    }
    if kind in ("chat", "responses"):  # Hermes adds no own headers to Messages requests
        assert {request.header("x-mine") for request in requests} == {"yes"}
    hermes.check_left_nothing()
    check_recorded(read_hermes, hermes.home / ".hermes")
    # Without wrap Hermes uses its provider again, so its session did not store the route.
    script.steps = [*steps, Say("Bye.")]
    alone = hermes.run_alone("hermes", *CHAT, *tools, "--resume", name, "-q", "Bye?")
    assert alone.stdout.strip() == "Bye."
    assert file.read_bytes() == before


def test_recall_tool_works(hermes: WrappedAgent) -> None:
    file = configure(hermes, "chat")
    # Hermes starts MCP servers only if the user's configuration names one.
    config_text = "mcp_servers: {own: {url: 'http://127.0.0.1:9/mcp', enabled: false}}"
    file.write_text(f"{file.read_text()}\n{config_text}\n")
    look = with_its_tools(Call("look", {"host": "host_0_X"}))
    recall = Call("mcp__contextrender__recall", {"query": "host_1_X", "limit": 1})
    script = Script(hermes.loopback.model, [look, recall, Say("Done.")])
    # Hermes writes an MCP result twice, as text and as data, which exceeds the small budget.
    process = hermes.run("hermes", *CHAT, "-q", "Look.", options=["--budget", "6000"])
    assert process.stdout.strip().endswith("Done.")
    assert hosts.MARKS[0] in json.dumps(script.requests[2]["messages"][-1])

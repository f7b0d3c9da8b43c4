"""Claude Code in `contextrender wrap`."""

import json
from pathlib import Path

import pytest
from contextrender_bridge.audit.claude import read_claude

from adapters.claude_code.test_claude_code import adapt_to_tools
from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import run
from adapters.testing.installs import environment, node_modules_of
from adapters.testing.scripted import Call, Say, Script
from adapters.wrap.wrapped import WrappedAgent, check_recorded


@pytest.fixture
def claude(loopback: Loopback, tmp_path: Path) -> WrappedAgent:
    """Create a user whose Claude Code settings have the model's address and a key."""
    modules = node_modules_of("claude_code")
    run(["node", modules / "@anthropic-ai/claude-code/install.cjs"], environment())
    wrapped = WrappedAgent(loopback, tmp_path, modules / ".bin")
    settings = wrapped.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    variables = {"ANTHROPIC_BASE_URL": loopback.model.url, "ANTHROPIC_API_KEY": "sk-own"}
    settings.write_text(json.dumps({"env": variables}))
    return wrapped


def test_continued_session_is_rendered(claude: WrappedAgent) -> None:
    steps = hosts.steps()
    adapted_steps = [adapt_to_tools(step, claude.work) for step in steps]
    script = Script(claude.loopback.model, adapted_steps)
    settings = claude.home / ".claude" / "settings.json"
    before = settings.read_bytes()
    options = ["--output-format", "json", "--model", "claude-opus-5-5"]
    options += ["--allowedTools", "Read,Bash"]
    first = claude.run("claude", "-p", "Find the slow ones of the first six.", *options)
    report = json.loads(first.stdout)
    assert claude.report["calls"] >= 7
    assert claude.report["tokens_omitted"] > 0
    resume = ["--resume", report["session_id"]]
    second = claude.run("claude", "-p", "And the next three?", *resume, *options)
    assert (report["result"], json.loads(second.stdout)["result"]) == hosts.ANSWERS
    script.steps = steps
    hosts.check(script)
    assert settings.read_bytes() == before
    claude.check_left_nothing()
    check_recorded(read_claude, claude.home / ".claude")
    requests = [request for request in claude.loopback.model.requests if request.method == "POST"]
    assert {request.header("x-api-key") for request in requests} == {"sk-own"}
    # With a custom address, Claude Code would send every tool with every call.
    names = [tool.get("name") for tool in script.requests[0]["tools"]]
    assert len(names) < 15, names


def test_recall_tool_works(claude: WrappedAgent) -> None:
    recall = Call("mcp__contextrender__recall", {"query": "host_1_X"})
    look = adapt_to_tools(Call("look", {"host": "host_0_X"}), claude.work)
    script = Script(claude.loopback.model, [look, recall, Say("Done.")])
    options = ["--model", "claude-opus-5-5", "--allowedTools", "Read"]
    process = claude.run("claude", "-p", "Look.", *options)
    assert process.stdout.strip() == "Done."
    result = script.requests[2]["messages"][-1]["content"][0]
    assert not result.get("is_error")
    assert hosts.MARKS[0] in json.dumps(result)


def test_settings_file_of_user_is_kept(claude: WrappedAgent) -> None:
    settings_file = claude.folder / "mine.json"
    variables = {"ANTHROPIC_API_KEY": "sk-file", "ANTHROPIC_CUSTOM_HEADERS": "x-mine: yes"}
    settings_file.write_text(json.dumps({"env": variables}))
    Script(claude.loopback.model, [Say("Done.")])
    process = claude.run("claude", "--settings", str(settings_file), "-p", "Look.")
    assert process.stdout.strip() == "Done."
    model_request = next(r for r in claude.loopback.model.requests if r.method == "POST")
    assert (model_request.header("x-api-key"), model_request.header("x-mine")) == ("sk-file", "yes")
    claude.check_left_nothing()


def test_exit_code_is_the_agents(claude: WrappedAgent) -> None:
    process = claude.run("claude", "-p", "x", "--resume", "no such session", fails=True)
    assert process.returncode == 1
    assert claude.report["calls"] == 0

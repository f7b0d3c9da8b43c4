"""OpenClaw in `contextrender wrap`."""

import json
from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.openclaw.test_openclaw import CHAT, QUESTIONS, OpenClaw, adapt_to_tools
from adapters.testing import hosts
from adapters.testing.scripted import Call, Say, Script
from adapters.wrap.wrapped import WrappedAgent

pytestmark = pytest.mark.slow


@pytest.fixture
def user_openclaw(loopback: Loopback, tmp_path: Path) -> OpenClaw:
    """Create the user's OpenClaw, whose configuration has the model's address."""
    (tmp_path / "own").mkdir()
    user_openclaw = OpenClaw(loopback, tmp_path / "own", CHAT)
    config = json.loads(user_openclaw.config.read_text())
    config["models"]["providers"]["contextrender"]["baseUrl"] = f"{loopback.model.url}/v1"
    user_openclaw.config.write_text(json.dumps(config))
    return user_openclaw


@pytest.fixture
def openclaw(user_openclaw: OpenClaw, loopback: Loopback, tmp_path: Path) -> WrappedAgent:
    variables = {
        "OPENCLAW_STATE_DIR": str(tmp_path / "state"),
        "OPENCLAW_CONFIG_PATH": str(user_openclaw.config),
        "OPENAI_API_KEY": "sk-none",
    }
    return WrappedAgent(loopback, tmp_path, user_openclaw.openclaw.parent, variables)


def run_task(openclaw: WrappedAgent, user_openclaw: OpenClaw, task: str, *options: str) -> str:
    """Run a task with `openclaw agent exec` and return the answer."""
    words = ["agent", "exec", task, "--cwd", str(user_openclaw.work), "--json"]
    process = openclaw.run(
        "openclaw", *words, "--config", str(user_openclaw.config), options=options
    )
    return str(json.loads(process.stdout)["final"])


def test_exec_task_is_rendered(openclaw: WrappedAgent, user_openclaw: OpenClaw) -> None:
    """The run also removes a file that an earlier, killed run left."""
    left_file = user_openclaw.config.with_name(".contextrender-1-1.json")
    left_file.write_text("{}")
    before = user_openclaw.config.read_bytes()
    steps = [step for step in hosts.steps() if step != Say(hosts.ANSWERS[0])]
    script = Script(openclaw.loopback.model, adapt_to_tools(steps))
    assert run_task(openclaw, user_openclaw, " ".join(QUESTIONS)) == hosts.ANSWERS[1]
    script.steps = steps
    hosts.check(script)
    assert openclaw.report["tokens_omitted"] > 0
    assert user_openclaw.config.read_bytes() == before
    assert [path.name for path in user_openclaw.config.parent.glob("*.json")] == [
        user_openclaw.config.name
    ]
    assert not left_file.exists()
    openclaw.check_left_nothing()


def test_recall_tool_works(openclaw: WrappedAgent, user_openclaw: OpenClaw) -> None:
    (look,) = adapt_to_tools([Call("look", {"host": "host_0_X"})])
    # OpenClaw calls MCP tools through its own `tool_call`.
    fields = {"query": "host_1_X", "limit": 1}
    recall = Call("tool_call", {"id": "contextrender__recall", "args": fields})
    script = Script(openclaw.loopback.model, [look, recall, Say("Done.")])
    assert run_task(openclaw, user_openclaw, "Look.", "--budget", "6000") == "Done."
    results = [message for message in script.requests[2]["messages"] if message["role"] == "tool"]
    assert hosts.MARKS[0] in json.dumps(results[-1])

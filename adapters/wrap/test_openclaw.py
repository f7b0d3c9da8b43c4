"""OpenClaw itself, wrapped."""

import json
from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.openclaw.test_openclaw import CHAT, QUESTIONS, OpenClaw, as_its_own
from adapters.testing import hosts
from adapters.testing.scripted import Call, Say, Script
from adapters.wrap.wrapped import Wrapped

pytestmark = pytest.mark.slow


@pytest.fixture
def own(loopback: Loopback, tmp_path: Path) -> OpenClaw:
    """The user's, with the model's own address in the configuration."""
    (tmp_path / "own").mkdir()
    own = OpenClaw(loopback, tmp_path / "own", CHAT)
    config = json.loads(own.config.read_text())
    config["models"]["providers"]["contextrender"]["baseUrl"] = f"{loopback.model.url}/v1"
    own.config.write_text(json.dumps(config))
    return own


@pytest.fixture
def openclaw(own: OpenClaw, loopback: Loopback, tmp_path: Path) -> Wrapped:
    variables = {
        "OPENCLAW_STATE_DIR": str(tmp_path / "state"),
        "OPENCLAW_CONFIG_PATH": str(own.config),
        "OPENAI_API_KEY": "sk-none",
    }
    return Wrapped(loopback, tmp_path, own.openclaw.parent, variables)


def asks(openclaw: Wrapped, own: OpenClaw, task: str, *options: str) -> str:
    """What it answers in one shot."""
    words = ["agent", "exec", task, "--cwd", str(own.work), "--json"]
    done = openclaw.run("openclaw", *words, "--config", str(own.config), options=options)
    return str(json.loads(done.stdout)["final"])


def test_one_shot(openclaw: Wrapped, own: OpenClaw) -> None:
    """With what a killed run has left."""
    left = own.config.with_name(".contextrender-1-1.json")
    left.write_text("{}")
    before = own.config.read_bytes()
    known = [step for step in hosts.steps() if step != Say(hosts.ANSWERS[0])]
    script = Script(openclaw.loopback.model, as_its_own(known))
    assert asks(openclaw, own, " ".join(QUESTIONS)) == hosts.ANSWERS[1]
    script.steps = known
    hosts.check(script)
    assert openclaw.report["tokens_omitted"] > 0
    assert own.config.read_bytes() == before
    assert [path.name for path in own.config.parent.glob("*.json")] == [own.config.name]
    assert not left.exists()
    openclaw.check_left_nothing()


def test_it_recalls(openclaw: Wrapped, own: OpenClaw) -> None:
    (look,) = as_its_own([Call("look", {"host": "host_0_X"})])
    # OpenClaw keeps the tools of MCP servers behind its own search, and this calls one.
    asked = {"query": "host_1_X", "limit": 1}
    recall = Call("tool_call", {"id": "contextrender__recall", "args": asked})
    script = Script(openclaw.loopback.model, [look, recall, Say("Done.")])
    assert asks(openclaw, own, "Look.", "--budget", "6000") == "Done."
    results = [one for one in script.requests[2]["messages"] if one["role"] == "tool"]
    assert hosts.MARKS[0] in json.dumps(results[-1])

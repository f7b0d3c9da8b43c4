"""OpenClaw itself, wrapped."""

import json
from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.openclaw.test_openclaw import CHAT, QUESTIONS, OpenClaw, as_its_own
from adapters.testing import hosts
from adapters.testing.scripted import Say, Script
from adapters.wrap.wrapped import Wrapped

pytestmark = pytest.mark.slow


def test_one_shot(loopback: Loopback, tmp_path: Path) -> None:
    """With the model's own address in the configuration, and what a killed run has left."""
    (tmp_path / "own").mkdir()
    own = OpenClaw(loopback, tmp_path / "own", CHAT)
    config = json.loads(own.config.read_text())
    config["models"]["providers"]["contextrender"]["baseUrl"] = f"{loopback.model.url}/v1"
    own.config.write_text(json.dumps(config))
    left = own.config.with_name(".contextrender-1-1.json")
    left.write_text("{}")
    before = own.config.read_bytes()
    variables = {
        "OPENCLAW_STATE_DIR": str(tmp_path / "state"),
        "OPENCLAW_CONFIG_PATH": str(own.config),
        "OPENAI_API_KEY": "sk-none",
    }
    openclaw = Wrapped(loopback, tmp_path, own.openclaw.parent, variables)
    known = [step for step in hosts.steps() if step != Say(hosts.ANSWERS[0])]
    script = Script(loopback.model, as_its_own(known))
    words = ["agent", "exec", " ".join(QUESTIONS), "--cwd", str(own.work), "--json"]
    done = openclaw.run("openclaw", *words, "--config", str(own.config))
    assert json.loads(done.stdout)["final"] == hosts.ANSWERS[1]
    script.steps = known
    hosts.check(script)
    assert openclaw.report["tokens_kept_away"] > 0
    assert own.config.read_bytes() == before
    assert [path.name for path in own.config.parent.glob("*.json")] == [own.config.name]
    assert not left.exists()
    openclaw.check_left_nothing()

"""Claude Code itself behind Claude Code Router, which asks an OpenAI model through the proxy."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.claude_code.test_claude_code import as_its_own, asking
from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.installs import environment, node_modules_of
from adapters.testing.scripted import Script
from tests.support.programs import free_port, serving_program

CONFIG = Path(__file__).parent / "config.json"


@pytest.fixture
def router(loopback: Loopback, tmp_path: Path) -> Iterator[str]:
    config = json.loads(CONFIG.read_text().replace("http://127.0.0.1:8700", loopback.proxy))
    config["PORT"] = free_port()
    home = tmp_path / "router"
    (home / ".claude-code-router").mkdir(parents=True)
    (home / ".claude-code-router" / "config.json").write_text(json.dumps(config))
    program = node_modules_of("claude_code_router") / ".bin" / "ccr"
    own = environment(HOME=str(home), OPENAI_API_KEY="sk-none")
    url = f"http://127.0.0.1:{config['PORT']}"
    with serving_program([program, "start"], own, f"{url}/health", tmp_path):
        yield url


def test_two_turns_of_a_session(loopback: Loopback, router: str, tmp_path: Path) -> None:
    known = hosts.steps()
    script = Script(loopback.model, [as_its_own(step, tmp_path / "work") for step in known])
    ask = asking(router, tmp_path, "claude-opus-5-5")
    first = ask("Find out which of the first six hosts are slow.")
    again = ["--resume", first["session_id"]]
    second = ask("And of the next three? Restart those that are slow.", *again)
    assert (first["result"], second["result"]) == hosts.ANSWERS
    script.steps = known
    hosts.check(script)
    assert loopback.failures() == {}
    session = loopback.recorded(turns := len(known) - 1)
    assert (session["turns"], session["branches"]) == (turns, 1)
    # The router does not pass on what Claude Code calls it.
    assert session["session"] != first["session_id"]

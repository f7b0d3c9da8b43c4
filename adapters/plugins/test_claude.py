"""The plugin inside Claude Code itself, at the newest and the oldest supported version."""

import json
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge import Credentials

from adapters.claude_code.test_claude_code import as_its_own
from adapters.conftest import Loopback
from adapters.plugins.user import MARK, User, count_text, looks
from adapters.testing import hosts
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Call, Limited, Say, Script, Step

OPTIONS = ["--output-format", "json", "--model", "claude-opus-5-5", "--allowedTools", "Read,Bash"]


@pytest.fixture(params=["newest", "oldest"])
def claude(request: pytest.FixtureRequest, loopback: Loopback, tmp_path: Path) -> User:
    """A user of Claude Code."""
    program = node_modules_of("plugins/claude") / request.param / "claude"
    variables = {
        "ANTHROPIC_BASE_URL": loopback.model.url,
        "ANTHROPIC_API_KEY": "sk-none",
        "DISABLE_AUTOUPDATER": "1",
    }
    return User(loopback, tmp_path, program, "claude", variables)


def ask(claude: User, question: str, *options: str) -> Any:
    done = claude.run("-p", question, *options, *OPTIONS)
    return json.loads(done.stdout)


def script_of(claude: User, *steps: Step, kind: type[Script] = Script, **options: Any) -> Script:
    own = [as_its_own(step, claude.work) for step in steps]
    return kind(claude.loopback.model, own, **options)


def test_a_manual_compaction_is_replaced(claude: User) -> None:
    claude.install()
    script = script_of(claude, *looks(6), Say("Done."))
    first = ask(claude, "Look at six hosts.")
    again = ["--resume", first["session_id"]]
    ask(claude, "/compact", *again)
    assert ask(claude, "And now?", *again)["result"] == "Done."
    # No model wrote a summary: the request after the compaction is the next one.
    assert len(script.asked) == 8
    after = script.asked[7]
    assert count_text(after["messages"], MARK) == 1
    assert all(mark in json.dumps(after["messages"]) for mark in hosts.MARKS[:6])
    assert count_text(after["messages"], "Look at six hosts.") == 1
    (session,) = claude.loopback.sessions()
    assert session["session"] == first["session_id"]

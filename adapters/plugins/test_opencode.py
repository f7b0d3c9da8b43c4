"""The plugin inside opencode itself, at the newest and the oldest supported version."""

import json
from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.plugins.user import MARK, User, count_text, looks
from adapters.testing import hosts
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Say
from adapters.wrap.test_opencode import Full, as_its_own

LIMIT = {"context": 40_000, "output": 1_000}


@pytest.fixture(params=["newest", "oldest"])
def opencode(request: pytest.FixtureRequest, loopback: Loopback, tmp_path: Path) -> User:
    """A user of opencode whose model has a small window."""
    program = node_modules_of("plugins/opencode") / request.param / "bin" / "opencode"
    variables = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    for place in ("DATA", "CONFIG", "CACHE", "STATE"):
        variables[f"XDG_{place}_HOME"] = str(tmp_path / "home" / place.lower())
    variables["PWD"] = str(tmp_path / "work")
    user = User(loopback, tmp_path, program, "opencode", variables)
    local = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{loopback.model.url}/v1", "apiKey": "sk-own"},
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
    return user


def test_a_compaction_shows_each_result_once(opencode: User) -> None:
    """The text leaves out the messages that opencode keeps beside its summary."""
    opencode.install()
    turns = [*looks(2)[:-1], Say("First."), *looks(3)[2:-1], Say("Second."), *looks(9)[3:]]
    steps = [as_its_own(step, opencode.work) for step in turns]
    script = Full(opencode.loopback.model, steps)
    first = opencode.run("run", "--format", "json", "Look at two hosts.")
    session = json.loads(first.stdout.splitlines()[0])["sessionID"]
    for question in ("Look at one more.", "Look at the others."):
        opencode.run("run", "--format", "json", "-s", session, question)
    compacted = [body for body in script.asked if count_text(body["messages"], MARK)]
    assert compacted
    for body in compacted:
        text = json.dumps(body["messages"])
        assert text.count(MARK) == 1
        assert hosts.MARKS[0] in text
        assert [text.count(mark) for mark in hosts.MARKS if text.count(mark) > 1] == []

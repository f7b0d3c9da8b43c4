"""Claude Code itself, with its own tools: results leave its requests and come back."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import run
from adapters.testing.installs import environment, node_modules_of
from adapters.testing.scripted import Call, Say, Script, Step

SETTINGS = Path(__file__).parent / "settings.json"
Ask = Callable[..., dict[str, str]]


def asking(proxy: str, folder: Path, model: str) -> Ask:
    """Runs `claude -p` with a question and options, in a home of its own; gives what it answers."""
    modules = node_modules_of("claude_code")
    # Where npm leaves install scripts out, this is still to be done.
    run(["node", modules / "@anthropic-ai/claude-code/install.cjs"], environment())
    work = folder / "work"
    hosts.write_files(work)
    settings = json.loads(SETTINGS.read_text())
    settings["env"]["ANTHROPIC_BASE_URL"] = proxy
    own = environment(
        ANTHROPIC_API_KEY="sk-none",
        CLAUDE_CONFIG_DIR=str(folder / "config"),
        HOME=str(folder),
    )

    def ask(question: str, *options: str) -> dict[str, str]:
        command = [str(modules / ".bin" / "claude"), "-p", question, *options]
        command += ["--output-format", "json", "--settings", json.dumps(settings)]
        command += ["--model", model, "--allowedTools", "Read,Bash"]
        done = run(command, own, work)
        answer: dict[str, str] = json.loads(done.stdout)
        return answer

    return ask


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-fable-5-1"])
def test_two_turns_of_a_session(loopback: Loopback, tmp_path: Path, model: str) -> None:
    known = hosts.steps()
    script = Script(loopback.model, [as_its_own(step, tmp_path / "work") for step in known])
    ask = asking(loopback.proxy, tmp_path, model)
    first = ask("Find out which of the first six hosts are slow.")
    again = ["--resume", first["session_id"]]
    second = ask("And of the next three? Restart those that are slow.", *again)
    assert (first["result"], second["result"]) == hosts.ANSWERS
    assert second["session_id"] == first["session_id"]
    script.steps = known
    hosts.check(script)
    for body in script.asked:
        # What it says as the system stays, and only where the API takes it.
        assert "# Environment" in json.dumps(body["messages"])
        roles = "".join(message["role"][0] for message in body["messages"])
        assert not re.search("^s|as|su", roles)
    (session,) = loopback.sessions()
    assert session["session"] == first["session_id"]
    assert session["turns"] == len(known) - 1
    assert session["branches"] == 1
    assert loopback.failures() == {}
    # Its own compaction sees all that was ever read, not what was left in view.
    before = len(script.asked)
    script.steps = [*script.steps, Say("Summary: hosts were looked at.")]
    ask("/compact", *again)
    asked = json.dumps(script.asked[before]["messages"])
    results = sum(step.name == "look" for step in known if isinstance(step, Call))
    assert results and asked.count('"tool_result"') >= results
    assert asked.count('"tool_result"') > json.dumps(script.asked[before - 1]).count(
        '"tool_result"'
    )


def as_its_own(step: Step, folder: Path) -> Step:
    """The step with Claude Code's tools."""
    if isinstance(step, Say):
        return step
    host = step.arguments["host"]
    if step.name == "restart":
        return Call("Bash", {"command": f"./restart {host}"})
    return Call("Read", {"file_path": str(folder / f"{host}.txt")})

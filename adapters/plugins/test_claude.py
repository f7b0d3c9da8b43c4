"""The plugin in Claude Code, in the newest and the oldest supported version."""

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge import Credentials

from adapters.claude_code.test_claude_code import adapt_to_tools
from adapters.conftest import Loopback
from adapters.plugins.user import (
    MARK,
    Counting,
    User,
    count_text,
    false_answers,
    false_service,
    looks,
)
from adapters.testing import hosts
from adapters.testing.installs import node_modules_of
from adapters.testing.scripted import Call, Say, Script, Step
from tests.support.scripted_model import json_reply

OPTIONS = ["--output-format", "json", "--model", "claude-opus-5-5", "--allowedTools", "Read,Bash"]


@pytest.fixture(params=["newest", "oldest"])
def claude(request: pytest.FixtureRequest, loopback: Loopback, tmp_path: Path) -> User:
    """Create a user of Claude Code."""
    program = node_modules_of("plugins/claude") / request.param / "claude"
    variables = {
        "ANTHROPIC_BASE_URL": loopback.model.url,
        "ANTHROPIC_API_KEY": "sk-none",
        "DISABLE_AUTOUPDATER": "1",
    }
    return User(loopback, tmp_path, program, "claude", variables)


def ask(claude: User, question: str, *options: str) -> Any:
    process = claude.run("-p", question, *options, *OPTIONS)
    return json.loads(process.stdout)


def script_of(claude: User, *steps: Step, kind: type[Script] = Script, **options: Any) -> Script:
    adapted_steps = [adapt_to_tools(step, claude.work) for step in steps]
    return kind(claude.loopback.model, adapted_steps, **options)


def test_manual_compaction_is_replaced(claude: User) -> None:
    claude.install()
    script = script_of(claude, *looks(6), Say("Done."))
    first = ask(claude, "Look at six hosts.")
    resume = ["--resume", first["session_id"]]
    ask(claude, "/compact", *resume)
    assert ask(claude, "And now?", *resume)["result"] == "Done."
    # No model wrote a summary: the compaction made no request.
    assert len(script.requests) == 8
    after = script.requests[7]
    assert count_text(after["messages"], MARK) == 1
    assert all(mark in json.dumps(after["messages"]) for mark in hosts.MARKS[:6])
    assert count_text(after["messages"], "Look at six hosts.") == 1
    (session,) = claude.loopback.sessions()
    assert session["session"] == first["session_id"]


def test_repeated_automatic_compactions(claude: User) -> None:
    """The text does not grow, and compactions are more than three turns apart."""
    claude.install("--tokens", "8000")
    claude.variables |= {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"}
    hosts.lengthen(claude.work, [400] * 9)
    rounds = [*looks(9)[:-1]] * 4
    script = script_of(claude, *rounds, Say("All."), kind=Counting)
    first = ask(claude, "Look at the hosts four times.")
    assert first["result"] == "All."
    assert len(script.requests) == len(rounds) + 1
    compacted = [count_text(body["messages"], MARK) for body in script.requests]
    assert max(compacted) == 1
    sizes = [len(json.dumps(body["messages"])) for body in script.requests]
    drops = [n for n in range(1, len(sizes)) if sizes[n] < sizes[n - 1]]
    assert len(drops) >= 2, sizes
    assert all(later - earlier > 3 for earlier, later in pairwise(drops)), drops
    assert sizes[drops[-1]] < 1.2 * sizes[drops[0]], (sizes, drops)
    for number, marks in enumerate(script.marks_in_requests(hosts.MARKS)[1:], 0):
        assert number % 9 in marks  # the newest result is always there
    (session,) = claude.loopback.sessions()
    assert session["results"] >= 9 * len(drops)


def test_recall_finds_omitted_results(claude: User) -> None:
    claude.install("--tokens", "2000")
    hosts.lengthen(claude.work, [400] * 6)
    recall = Call("mcp__contextrender__recall", {"query": "host_1_X"})
    script = script_of(claude, *looks(6))
    first = ask(claude, "Look at six hosts.")
    resume = ["--resume", first["session_id"]]
    ask(claude, "/compact", *resume)
    script.steps = [*script.steps, recall, Say("Done.")]
    options = ["--allowedTools", "mcp__contextrender__recall", *resume]
    process = claude.run("-p", "Recall.", *options, *OPTIONS[:-2])
    assert json.loads(process.stdout)["result"] == "Done."
    before, after = script.requests[-2:]
    assert "row 00200" not in json.dumps(before["messages"])
    assert "row 00200" in json.dumps(after["messages"][-1])


def test_agents_summary_comes_first(claude: User) -> None:
    claude.install("--mode", "after-summary")
    summary = "<summary>Summary: six were looked at.</summary>"
    script = script_of(claude, *looks(6), Say(summary), Say("Done."))
    first = ask(claude, "Look at six hosts.")
    resume = ["--resume", first["session_id"]]
    ask(claude, "/compact", *resume)
    assert ask(claude, "And now?", *resume)["result"] == "Done."
    text = json.dumps(script.requests[-1]["messages"])
    assert text.index("Summary: six were looked at.") < text.index(hosts.MARKS[5])
    assert count_text(script.requests[-1]["messages"], MARK) == 1


@pytest.mark.parametrize("failure", ["down", *false_answers()])
def test_agent_compacts_itself_without_service(claude: User, failure: str) -> None:
    claude.install()
    claude.forbid_start()
    summary = Say("<summary>Summary: six were looked at.</summary>")
    script = script_of(claude, *looks(6), summary, Say("Done."))
    with false_service(false_answers().get(failure, lambda asked: json_reply({}))) as credentials:
        down = Credentials("http://127.0.0.1:9", "none")
        claude.use_service(down if failure == "down" else credentials)
        first = ask(claude, "Look at six hosts.")
        resume = ["--resume", first["session_id"]]
        started = time.monotonic()
        ask(claude, "/compact", *resume)
        assert time.monotonic() - started < 20
    assert ask(claude, "And now?", *resume)["result"] == "Done."
    after = json.dumps(script.requests[-1]["messages"])
    assert "Summary: six were looked at." in after
    assert MARK not in after


def test_killed_service_is_restarted(claude: User) -> None:
    claude.install()
    claude.use_service(Credentials("http://127.0.0.1:9", "none"))
    script = script_of(claude, *looks(6), Say("Done."))
    with claude.started_service():
        first = ask(claude, "Look at six hosts.")
        resume = ["--resume", first["session_id"]]
        claude.wait_for_service()
        ask(claude, "/compact", *resume)
        assert ask(claude, "And now?", *resume)["result"] == "Done."
    assert count_text(script.requests[-1]["messages"], MARK) == 1


def test_each_call_is_rendered(claude: User) -> None:
    if "oldest" in str(claude.program):
        process = claude.contextrender("install", "claude", "--mode", "render", fails=True)
        assert "2.1.329" in process.stderr
        return
    claude.install("--mode", "render")
    hosts.lengthen(claude.work, [1_400] * 9)
    script = script_of(claude, *looks(9))
    answer = ask(claude, "Look at nine hosts.")
    assert answer["result"] == "All."
    sizes = [len(json.dumps(body["messages"])) for body in script.requests]
    assert sizes[-1] < 0.6 * sum((claude.work / f"host_{n}_X.txt").stat().st_size for n in range(9))
    for number, marks in enumerate(script.marks_in_requests(hosts.MARKS)[1:]):
        assert number in marks
    requests = [one for one in claude.loopback.model.asked if one.method == "POST"]
    assert {one.header("x-api-key") for one in requests} == {"sk-none"}
    names = {session["session"] for session in claude.loopback.sessions()}
    assert answer["session_id"] in names


def test_uninstall_removes_everything(claude: User) -> None:
    script = script_of(claude, *[Say("Done.")] * 3)
    ask(claude, "Hello.")
    before = {name for name in claude.files() if "contextrender" in name.lower()}
    settings = claude.home / ".claude" / "settings.json"
    settings.write_text('{"cleanupPeriodDays": 30}')
    claude.install()
    claude.install()
    ask(claude, "Hello.")
    claude.contextrender("uninstall", "claude")
    ask(claude, "Hello.")
    assert {name for name in claude.files() if "contextrender" in name.lower()} == before
    # Claude Code itself leaves empty lists of plugins.
    assert {name: value for name, value in json.loads(settings.read_text()).items() if value} == {
        "cleanupPeriodDays": 30
    }
    assert list(claude.data.glob("plugins/*")) == []
    assert "recall" not in json.dumps(script.requests[-1]["tools"])
    assert "recall" in json.dumps(script.requests[-2])

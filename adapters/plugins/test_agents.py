"""Tests of the plugin inside each agent, at the newest and the oldest supported version.

All agents take the same steps, with two exceptions: pi has no subagents, and in opencode, plugins
of its providers do the logins by OAuth.
"""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from contextrender_bridge import Credentials

from adapters.conftest import Loopback
from adapters.plugins.agents import AGENTS
from adapters.plugins.agents.base import TOKEN, Agent
from adapters.plugins.user import (
    MARK,
    TEXT_END,
    UsageScript,
    User,
    false_answers,
    false_service,
    looks,
)
from adapters.testing import hosts
from adapters.testing.scripted import Say
from tests.support.scripted_model import ModelRequest, Reply
from tests.support.waiting import wait_until

NO_SERVICE = Credentials("http://127.0.0.1:9", "none")
RENDER = ["--mode", "render"]
PRICES = [f"{model}:input=2,cached=0.5,output=8" for model in ("m", "scripted", "gpt-5.5")]
"""The prices of the scripted model by its names, in dollars per million tokens."""
OWN_SUMMARY = "A title"
"""The text with which the model's double answers a request for a summary."""


@pytest.fixture(
    params=[(name, age) for name in AGENTS for age in ("newest", "oldest")], ids="-".join
)
def agent(request: pytest.FixtureRequest, loopback: Loopback, tmp_path: Path) -> Iterator[Agent]:
    """Create an agent at one version."""
    name, version = request.param
    agent = AGENTS[name](User(loopback, tmp_path, name), version)
    yield agent
    agent.clean()


def test_compactions_are_replaced_and_resumed(agent: Agent) -> None:
    """The second compaction's text is selected from the whole session, and replaces the first
    text."""
    agent.user.install()
    steps = [*looks(3), Say("Done."), *looks(6)[3:], Say("Done."), Say("Resumed.")]
    script = agent.script(*steps)
    with agent.running() as running:
        running.ask("Look at three hosts.")
        running.compact()
        running.ask("And now?")
        running.ask("And the next three?")
        running.compact()
        running.ask("And then?")
        lines = running.notices
    with agent.running(running.session) as resumed:
        resumed.ask("Resume.")
    assert len(lines) == 2, lines
    assert all(line.startswith(agent.first_words) for line in lines), lines
    assert len(script.requests) == len(steps)
    for body in script.requests[4:]:
        text = json.dumps(agent.history(body))
        assert text.count(MARK) == text.count(TEXT_END) == 1
        assert [text.count(mark) for mark in hosts.MARKS[:3]] == [1] * 3
        assert text.count("Look at three hosts.") == 1
        assert (OWN_SUMMARY in text) == agent.adds_to_summary
    for text in agent.texts(script)[-2:]:
        assert [text.count(mark) for mark in hosts.MARKS[:6]] == [1] * 6
    sessions = {session["session"]: session for session in agent.user.loopback.sessions()}
    assert sessions[running.session]["branches"] == 1
    assert sessions[running.session]["results"] >= 5


def test_repeated_automatic_compactions(agent: Agent) -> None:
    """The compactions' text does not grow, and each compaction is over three calls after the
    last."""
    agent.user.install("--tokens", "8000")
    agent.shrink_window()
    hosts.lengthen(agent.user.work, [400] * 9)
    script = agent.script(*looks(9) * 4, kind=UsageScript)
    with agent.running() as running:
        for _ in range(4):
            # Claude Code does not read an unchanged file again.
            hosts.lengthen(agent.user.work, [1] * 9)
            running.ask("Look at the hosts.")
        lines = running.notices
    assert len(lines) >= 2, lines
    assert all(line.startswith(agent.first_words) for line in lines), lines
    assert max(text.count(MARK) for text in agent.texts(script)) == 1
    sizes = [len(text) for text in agent.texts(script)]
    drops = [n for n in range(1, len(sizes)) if sizes[n] < sizes[n - 1]]
    assert len(drops) >= 2, sizes
    assert all(later - earlier > 3 for earlier, later in pairwise(drops)), (drops, sizes)
    assert sizes[drops[-1]] < 1.2 * sizes[drops[0]], (drops, sizes)


def test_recall_finds_omitted_results(agent: Agent) -> None:
    agent.user.install("--tokens", "2000")
    hosts.lengthen(agent.user.work, [700] * 6)
    script = agent.script(*looks(6))
    with agent.running() as running:
        running.ask("Look at six hosts.")
        running.compact()
        script.steps = [*script.steps, agent.recall(running, "host_1_X"), Say("Done.")]
        running.ask("Recall.")
    before, after = agent.texts(script)[-2:]
    assert re.search(r"\[Excerpt: |Result \d+ is omitted", before)
    assert after.count("row 00690") > before.count("row 00690")


def test_agent_writes_summary_without_usable_answer(agent: Agent) -> None:
    """First no service runs. Then programs with unusable answers take its place."""
    agent.user.install()
    agent.user.forbid_start()
    agent.user.use_service(NO_SERVICE)
    kinds = {"down": None, **false_answers()}
    script = agent.script(*[*looks(3), Say("Done.")] * len(kinds))
    with agent.running() as running:
        for kind, answer in kinds.items():
            with false_service(answer or false_answers()["an error"]) as credentials:
                agent.user.use_service(credentials if answer else NO_SERVICE)
                running.ask("Look at three hosts.")
                running.compact()
                running.ask("And now?")
            line = running.notices[-1]
            assert line.startswith(f"ContextRender left this compaction to {agent.title}. "), kind
            assert ("did not answer within 5 s" in line) == (kind == "slow"), kind
            assert ("is not running" in line) == (kind in ("down", "half an answer")), kind
            text = agent.texts(script)[-1]
            assert MARK not in text and OWN_SUMMARY in text, kind
        assert len(running.notices) == len(kinds)
    assert len(script.requests) == len(script.steps)


def test_agent_writes_summary_when_hook_throws(agent: Agent) -> None:
    agent.user.install()
    agent.break_hook()
    script = agent.script(*looks(3), Say("Done."), Say("Done."))
    with agent.running() as running:
        running.ask("Look at three hosts.")
        running.compact()
        running.ask("And now?")
        running.ask("And then?")
        lines = running.notices
    for text in agent.texts(script)[-2:]:
        assert MARK not in text and OWN_SUMMARY in text
    assert len(script.requests) == len(script.steps)
    assert lines and all("TypeError: broken" in line or "hook" in line for line in lines), lines


def test_killed_service_is_restarted_for_next_compaction(agent: Agent) -> None:
    """At the agent's start, the stored address is that of a service that has stopped."""
    agent.user.install()
    agent.user.use_service(NO_SERVICE)
    script = agent.script(*looks(3), Say("Done."), *looks(6)[3:], Say("Done."))
    with agent.user.started_service(), agent.running() as running:
        running.ask("Look at three hosts.")
        agent.user.wait_for_service()
        assert agent.user.lease_holders() == {agent.executable}
        agent.user.kill_service()
        running.compact()
        running.ask("And now?")
        agent.user.wait_for_service()
        running.ask("And the next three?")
        running.compact()
        running.ask("And then?")
        first, second = running.notices
    assert "is not running; it is started for the next time" in first
    assert second.startswith(agent.first_words), second
    assert [text.count(MARK) for text in agent.texts(script)[4:]] == [0] * 5 + [1]


def test_own_summary_comes_first(agent: Agent) -> None:
    if "after-summary" not in agent.modes:
        pytest.skip(f"{agent.title} has no mode after-summary")
    agent.user.install("--mode", "after-summary")
    script = agent.script(*looks(3), Say("Done."))
    with agent.running() as running:
        running.ask("Look at three hosts.")
        running.compact()
        running.ask("And now?")
    text = agent.texts(script)[-1]
    assert text.count(MARK) == 1
    assert text.index(OWN_SUMMARY) < text.index(hosts.MARKS[0])


def test_each_call_is_rendered(agent: Agent) -> None:
    """A slow service delays one call. The next calls do not use it."""
    if not agent.can_render():
        refusal = agent.user.contextrender("install", agent.user.name, *RENDER, fails=True)
        assert "too old" in refusal.stderr or "and no render" in refusal.stderr
        pytest.skip(f"{agent.title} has no mode render at this version")
    agent.user.install(*RENDER)
    hosts.lengthen(agent.user.work, [700] * 9)
    script = agent.script(*looks(9), *looks(3))
    asked_paths: list[str] = []

    def answer_slowly(request: ModelRequest) -> Reply:
        asked_paths.append(request.path)
        return false_answers()["slow"](request)

    with agent.running() as running:
        running.ask("Look at nine hosts.")
        assert running.notices == []
        if agent.has_status:
            assert running.statuses[-1].startswith("ContextRender: ")
        agent.user.forbid_start()
        with false_service(answer_slowly) as credentials:
            agent.user.use_service(credentials)
            running.ask("Look at three of them again.")
        (line,) = running.notices
        if agent.has_status:
            assert running.statuses[-1] == ""
    assert line.startswith("ContextRender leaves model calls unchanged. ")
    assert "did not answer within 5 s" in line
    assert asked_paths == ["/v1/compress"]
    read = sum((agent.user.work / f"host_{n}_X.txt").stat().st_size for n in range(9))
    sizes = [len(text) for text in agent.texts(script)]
    assert sizes[9] < 0.7 * read < read < sizes[-1]
    for number, marks in enumerate(script.marks_in_requests(hosts.MARKS)[1:10]):
        assert number in marks
    sessions = {session["session"]: session for session in agent.user.loopback.sessions()}
    assert sessions[running.session]["branches"] == 1
    assert sessions[running.session]["client"].startswith(agent.user.name)


def test_usage_is_reported(agent: Agent) -> None:
    """In mode `render`, the usage of each call is recorded.

    Otherwise it is that of the call after a compaction.
    """
    agent.user.install(*(RENDER if agent.can_render() else []))
    agent.script(*looks(3), Say("Done."), *looks(6)[3:], Say("Done."))
    with agent.running() as running:
        running.ask("Look at three hosts.")
        running.compact()
        running.ask("And now?")
        running.ask("And the next three?")
    # In mode `render`: four calls before the compaction, and five after it.
    calls = 9 if agent.can_render() else 1
    client = agent.user.loopback.client

    def read_costs() -> list[tuple[int, float]]:
        rows = client.call("total_savings", {"prices": PRICES})["rows"]
        return [(row["calls_with_usage"], row["cost"]) for row in rows]

    wait_until(lambda: sum(count for count, _ in read_costs()) == calls, explain=read_costs)
    # The model reports 9 tokens of the prompt and 4 of its answer.
    cost = calls * (9 * 2 + 4 * 8) / 1_000_000
    assert sum(dollars for _, dollars in read_costs()) == pytest.approx(cost)


def test_login_by_oauth_is_kept(agent: Agent) -> None:
    """Rendered calls, and calls after a compaction, have the agent's own bearer token."""
    agent.log_in()
    agent.user.install(*(RENDER if agent.can_render() else []))
    script = agent.script(*looks(3), Say("Done."))
    with agent.running() as running:
        running.ask("Look at three hosts.")
        running.compact()
        running.ask("And now?")
    assert agent.texts(script)[-1].count(MARK) == 1, running.notices
    requests = [
        request for request in agent.user.loopback.model.requests if request.method == "POST"
    ]
    assert {request.header("authorization") for request in requests} == {f"Bearer {TOKEN}"}


def test_subagent_has_own_session(agent: Agent) -> None:
    """The subagent compacts its own history. The agent's history is unchanged.

    Codex has no hook that can add text after a subagent's compaction, so it has only a summary.
    """
    if agent.subagent is None:
        pytest.skip(f"{agent.title} has no subagents here")
    agent.user.install("--tokens", "8000")
    agent.shrink_window()
    hosts.lengthen(agent.user.work, [800] * 9)
    requests = agent.delegate(*looks(9)[:-1], *looks(9)[:-1], Say("They are fast."))
    with agent.running() as running:
        running.ask("Have a subagent look at the hosts.")
        session = running.session
    texts = [json.dumps(agent.history(body)) for body in requests]
    mark_counts = [text.count(MARK) for text in texts]
    assert mark_counts[0] == mark_counts[-1] == 0
    assert max(mark_counts) == agent.compacts_subagents, mark_counts
    assert any(OWN_SUMMARY in text for text in texts) or agent.compacts_subagents
    assert "They are fast." in texts[-1]
    names = {session["session"] for session in agent.user.loopback.sessions()}
    assert bool(names) == agent.compacts_subagents and session not in names, (names, session)


def test_uninstall_removes_everything(agent: Agent) -> None:
    script = agent.script(Say("Done."), Say("Done."))
    before = agent.configuration()
    agent.user.install()
    with agent.running() as running:
        running.ask("Hello.")
    configuration = agent.configuration()
    assert configuration != before
    agent.user.install()
    assert agent.configuration() == configuration
    agent.user.contextrender("uninstall", agent.user.name)
    assert agent.configuration() == before
    with agent.running() as running:
        running.ask("Hello.")
    first, second = script.requests
    assert agent.recall_tool not in json.dumps(second)
    # Codex lists an MCP server's tools once that has started.
    assert agent.title == "Codex" or agent.recall_tool in json.dumps(first)

"""The cache-aware policy over HTTP: a prompt repeats the previous one, in any process."""

import json
import time
from importlib import import_module
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.plan.selection_edges import KINDS
from contextrender_bridge.runtime.caches import REPLAYS
from contextrender_bridge.runtime.session_lease import WORKING_SET

from tests.api.client import Api, Conversation
from tests.api.conftest import Service, User
from tests.api.graph import count_rows
from tests.support.transcripts import agent_run, assistant, step, user

RUN = agent_run(40, lines=5)
CALLS = [position for position, message in enumerate(RUN) if message["role"] == "assistant"]
COMPLETE_TEXTS = {message["content"] for message in RUN if message["role"] == "tool"}
SETTINGS: Json = {"budget": 1_800, "policy": "contextrender_cache_aware"}


def prompts(api: Api, session: str = "s") -> list[list[Json]]:
    talk = Conversation(api, session)
    return [talk.send("render", RUN[:size], **SETTINGS)["messages"] for size in CALLS]


@pytest.fixture(scope="module")
def expected(service: Service) -> list[list[Json]]:
    return prompts(service.new_user().api)


def stored_calls(alice: User) -> list[dict[str, Any]]:
    """Return the stored fields and edges of all model calls."""
    graph = alice.graph()
    edges = [
        {"kind": kind, "call": call.id, "event": event.id, **fields}
        for kind in KINDS
        for call, event, fields in graph.pairs(kind)
    ]
    return [call.fields for call in graph.of("ModelCall")] + edges


def test_retry_and_older_call_change_nothing(alice: User, expected: list[list[Json]]) -> None:
    prompts(alice.api)
    before = stored_calls(alice)
    assert before
    for number in (len(CALLS) - 1, 30, 12, len(CALLS) - 1):
        reply = alice.api("render", session="s", messages=RUN[: CALLS[number]], **SETTINGS)
        assert json.dumps(reply["messages"]) == json.dumps(expected[number])
        now = stored_calls(alice)
        assert all(fields in now for fields in before)


@pytest.mark.parametrize("calls", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_prompts_are_equal_when_session_cache_is_cleared(alice: User, calls: int) -> None:
    """The cache is cleared before every tenth call; all prompts are byte-identical."""
    run = agent_run(calls, lines=5)
    ends = [position for position, message in enumerate(run) if message["role"] == "assistant"]
    steady, forgetful = (Conversation(alice.api, name) for name in ("steady", "forgetful"))
    settings = {**SETTINGS, "agent_defaults": True}
    expected = [steady.send("render", run[:size], **settings)["messages"] for size in ends]
    for number, size in enumerate(ends):
        if number % 10 == 0:
            WORKING_SET.clear()
        messages = forgetful.send("render", run[:size], **settings)["messages"]
        assert json.dumps(messages) == json.dumps(expected[number])
    assert alice.graph().pairs("Restores")


def large_run(turns: int) -> list[Json]:
    """Return a run whose results have from 600 to 9,000 tokens."""
    messages: list[Json] = [user("Read the log of each host.")]
    for turn in range(turns):
        rows = range((turn * 7 % 11 + 1) * 60)
        text = "\n".join(
            f"host_{turn} line {row}: job_{row * 7 % 97} took {row} ms" for row in rows
        )
        messages += step(f"call_{turn}", "read_log", f'{{"host": {turn}}}', text, f"host_{turn}")
    return messages


def test_newest_result_is_complete_once_when_cache_is_cleared(alice: User) -> None:
    """The cache is cleared before every third call, and an import continues: equal prompts."""
    run = large_run(36)
    ends = [position for position, message in enumerate(run) if message["role"] == "assistant"]
    settings: Json = {"budget": "auto", "policy": SETTINGS["policy"], "agent_defaults": True}
    steady, forgetful = (Conversation(alice.api, name) for name in ("steady", "forgetful"))
    expected = [steady.send("render", run[:size], **settings)["messages"] for size in ends]
    once = [
        before[-1]["content"] != after[len(before) - 1]["content"]
        for before, after in pairwise(expected[2:])
        if before[-1]["role"] == "tool" and len(after) > len(before)
    ]
    assert sum(once) > 5
    assert [prompt[-1]["content"] for prompt in expected[1:]].count(
        run[ends[-1] - 1]["content"]
    ) == 1
    for number, size in enumerate(ends):
        if number % 3 == 0:
            WORKING_SET.clear()
        messages = forgetful.send("render", run[:size], **settings)["messages"]
        assert json.dumps(messages) == json.dumps(expected[number]), number
        if number == len(ends) - 2:
            export = alice.api("export_session", session="forgetful")
    assert any(fields["next_pieces"] for _, _, fields in alice.graph().pairs("ShowsComplete"))
    alice.api("import_session", session="copy", data=export)
    copy = Conversation(alice.api, "copy")
    assert json.dumps(copy.send("render", run[: ends[-1]], **settings)["messages"]) == json.dumps(
        expected[-1]
    )


def test_explain_lists_results_of_an_earlier_prompt(
    alice: User, expected: list[list[Json]]
) -> None:
    prompts(alice.api)
    before = stored_calls(alice)
    for number in (8, 20, 33, len(CALLS) - 1):
        reply = alice.api("explain", session="s", turn=number + 1, **SETTINGS)
        complete_rows = [row for row in reply["results"] if row["display"] == "complete"]
        texts = [RUN[row["position"]]["content"] for row in complete_rows]
        # Restored results are appended to the text of the newest result.
        prompt_texts = [
            message["content"].partition("\n\n[")[0]
            for message in expected[number]
            if message["role"] == "tool"
        ]
        assert texts == [text for text in prompt_texts if text in COMPLETE_TEXTS]
    assert stored_calls(alice) == before


def test_explain_reads_newest_call_without_selecting_again(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing cached, the call is read from the store."""
    prompts(alice.api)
    turn = len(CALLS)
    views = [alice.api(name, session="s", turn=turn) for name in ("explain", "get_call")]
    assert {row["display"] for row in views[0]["results"]} == {"complete", "excerpt", "omitted"}
    policy = import_module("contextrender_bridge.engine.policies.contextrender_cache_aware")
    steps = Mock(side_effect=policy._select_within_budget)
    monkeypatch.setattr(policy, "_select_within_budget", steps)
    for expected, name in zip(views, ("explain", "get_call"), strict=True):
        REPLAYS._replays.clear()
        WORKING_SET.clear()
        assert alice.api(name, session="s", turn=turn) == expected
    steps.assert_not_called()


def test_each_setting_and_branch_has_its_own_prompt_state(alice: User) -> None:
    before = count_rows(alice.data)
    prompts(alice.api)
    alice.api("render", session="s", messages=RUN, budget=2_500, policy="contextrender_cache_aware")
    rewritten = [*RUN[:60], assistant("Or else?"), user("Go on with ORD-1003.")]
    alice.api("render", session="s", messages=rewritten, **SETTINGS)
    separate = alice.api("render", session="alone", messages=rewritten, **SETTINGS)
    repeated = alice.api("render", session="s", messages=rewritten, **SETTINGS)
    assert repeated["messages"] == separate["messages"]
    alice.graph().check()
    for session in ("s", "alone"):
        alice.api("delete_session", session=session)
    assert not alice.graph().nodes
    assert count_rows(alice.data) == before


def import_with_times(api: Api, session: str, messages: list[Json], times: list[float]) -> None:
    """Store a session whose messages have these timestamps."""
    api("sync", session=f"{session} empty", messages=messages[:1])
    data = api("export_session", session=f"{session} empty")
    data["branches"][0] |= {"messages": messages, "timestamps": times}
    api("import_session", session=session, data=data)


@pytest.mark.parametrize("pause", [150.0, 7_200.0])
def test_prompt_is_rebuilt_after_cache_lifetime(api: Api, pause: float) -> None:
    messages = agent_run(14, lines=5)
    past = len(messages) - 2
    sessions = map(str, range(9))

    def repeats_prompt(minutes: float | None) -> bool:
        session, before = next(sessions), time.time() - pause
        import_with_times(
            api, session, messages[:past], [before - past + number for number in range(past)]
        )
        parameters: Json = {} if minutes is None else {"cache_ttl_minutes": minutes}
        settings = SETTINGS | {"session": session, "parameters": parameters}
        last = api("render", messages=messages[:past], **settings)["messages"]
        now = api("render", messages=messages, **settings)["messages"]
        assert len(last) < past
        return json.dumps(now[: len(last)]) == json.dumps(last)

    assert repeats_prompt(None) == (pause < 300)
    assert repeats_prompt(0)
    assert repeats_prompt(1) is False
    assert repeats_prompt(180)

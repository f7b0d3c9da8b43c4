"""The newest calls in a moment: as `timeline` tells them, but for what needs all texts."""

from typing import Any

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.conftest import User
from tests.api.test_call_facts import called
from tests.api.transcripts import agent_run, user

RUN = agent_run(40, lines=4)
EXACT = ("turn", "results", "before", "after", "outside", "retained", "complete", "replaced")
ALSO = ("noted", "sent", "model", "billed")


@pytest.fixture
def agent(alice: User) -> User:
    called(alice, "s", RUN, budget=900)
    return alice


def timeline(who: User, **fields: Any) -> Json:
    whole = page = who.api("timeline", session="s", **fields)
    while page["next"] is not None:
        page = who.api("timeline", session="s", start=page["next"], **fields)
        whole["turns"] += page["turns"]
    return dict(whole)


def noted(whole: Json) -> list[Json]:
    """Its turns, without the one whose call was not made: the run ends before it."""
    assert [turn["noted"] for turn in whole["turns"]] == [True] * 40 + [False]
    return list(whole["turns"][:-1])


def told(turn: Json) -> Json:
    return {name: turn[name] for name in (*EXACT, *ALSO)}


def test_it_tells_what_the_timeline_tells(agent: User) -> None:
    whole = timeline(agent)
    for limit in (1, 7, 60):
        agrees(agent.api("glimpse", session="s", limit=limit), whole, limit)


def agrees(rough: Json, whole: Json, limit: int) -> None:
    assert rough["rough"] and not whole["rough"]
    assert [told(turn) for turn in rough["turns"]] == [told(t) for t in noted(whole)][-limit:]
    for name in ("last", "waiting", "budget", "policy", "policies"):
        assert rough[name] == whole[name]
    some, every = rough["results"], whole["results"]
    for name in ("positions", "turns", "tokens"):
        assert some[name] == every[name][some["first"] :]
    assert [some["tools"][n] for n in some["names"]] == [
        every["tools"][n] for n in every["names"][some["first"] :]
    ]
    for turn, exact in zip(rough["turns"], noted(whole)[-limit:], strict=True):
        assert turn["uses"] == [use for use in exact["uses"] if use >= some["first"]]
    assert any(turn["uses"] for turn in rough["turns"])


def test_a_call_that_waits_for_its_answer_is_there(agent: User) -> None:
    agent.api("render", session="s", messages=RUN, budget=900)
    rough = agent.api("glimpse", session="s")
    assert rough["waiting"] and rough["last"] == 41
    assert told(rough["turns"][-1]) == told(timeline(agent)["turns"][-1])


def test_it_tells_of_the_branch_that_is_asked_for(agent: User) -> None:
    agent.api("render", session="s", messages=[*RUN[:20], user("Else.")], budget=900)
    rough, whole = (agent.api(name, session="s", branch=0) for name in ("glimpse", "timeline"))
    assert rough["branch"] == 0 and rough["last"] == whole["last"] == 41
    forked = agent.api("glimpse", session="s")
    assert forked["branch"] == 1
    assert [told(t) for t in forked["turns"]] == [told(t) for t in timeline(agent)["turns"]]


def test_the_newest_calls_that_were_only_recorded_are_told_first(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN, settings={"budget": 900})
    newest = alice.api("timeline", session="s", start=-4)["turns"]
    assert newest and newest == timeline(alice)["turns"][-5:][: len(newest)]
    assert not newest[0]["noted"] and newest[0]["complete"]


def test_what_was_only_recorded_has_no_calls_to_tell(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    rough = alice.api("glimpse", session="s")
    assert rough["turns"] == [] and rough["last"] == 41
    alice.api("sync", session="empty", messages=[user("Hello.")])
    assert alice.api("glimpse", session="empty")["turns"] == []
    for limit in (0, 201):
        alice.api.refused("glimpse", 422, "invalid_request", session="s", limit=limit)

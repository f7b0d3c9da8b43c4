"""Calls in a moment: the newest as `timeline` tells them, but for what needs all texts; one as
`show_call` does, but for reasons and excerpts' words."""

from typing import Any

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.conftest import Service, User
from tests.support.transcripts import agent_run, assistant, call, called, result, user

RUN = agent_run(40, lines=4)
EXACT = ("turn", "results", "before", "after", "outside", "retained", "complete", "replaced")
ALSO = ("noted", "sent", "model", "billed")
MANY: list[Json] = [
    *RUN[:20],
    assistant("All of these:", *(call(f"m{n}", "get_order", f'{{"n": {n}}}') for n in range(70))),
    *(result(f"m{n}", f"order ORD-77{n:02}") for n in range(70)),
    assistant("", call("last", "get_order")),
    result("last", "order ORD-9999 " * 500),
]
TOLD = ("position", "role", "name", "turn", "tokens", "shown", "outside")
EXPLAINED = (
    *("turn", "noted", "sent", "budget", "policy", "tokens", "retained", "count"),
    *("complete", "replaced"),
)


@pytest.fixture(scope="module")
def agent(service: Service) -> User:
    """Nothing else is to be recorded of it."""
    made = service.new_user()
    called(made.api, "s", RUN, budget=900)
    return made


@pytest.fixture
def goes_on(agent: User, alice: User) -> User:
    """Another with the same session."""
    alice.api("import_session", data=agent.api("export_session", session="s"))
    return alice


def timeline(who: User) -> Json:
    whole, *rest = who.api.pages("timeline", session="s")
    return whole | {"turns": sum((page["turns"] for page in rest), whole["turns"])}


def noted(whole: Json) -> list[Json]:
    """Its turns, without the one whose call was not made: the run ends before it."""
    assert [turn["noted"] for turn in whole["turns"]] == [True] * 40 + [False]
    return list(whole["turns"][:-1])


def told(turn: Json) -> Json:
    return {name: turn[name] for name in (*EXACT, *ALSO)}


def check(who: User, **fields: Any) -> Json:
    """What `glimpse_call` tells, once it agrees with `show_call`."""
    rough, whole = (who.api(name, session="s", **fields) for name in ("glimpse_call", "show_call"))
    assert rough["rough"] and not whole["rough"]
    for name in ("parameters", "last", "before"):
        assert rough[name] == whole[name]
    for name in EXPLAINED:
        assert rough["explain"][name] == whole["explain"][name]
    lines = {line["position"]: line for line in whole["messages"]}
    for line in rough["messages"]:
        other = lines[line["position"]]
        assert {name: line[name] for name in TOLD} == {name: other[name] for name in TOLD}
        if line["shown"] != "excerpt":
            assert (line["text"], line["whole"]) == (other["text"], other["whole"])
        assert line["calls"] == other["calls"]
    assert len(rough["messages"]) == min(fields.get("window", 150), len(whole["messages"]))
    return dict(rough)


def test_it_tells_what_the_timeline_tells(agent: User) -> None:
    whole, limit = timeline(agent), 7
    rough = agent.api("glimpse", session="s", limit=limit)

    assert rough["rough"] and not whole["rough"]
    assert [told(turn) for turn in rough["turns"]] == [told(t) for t in noted(whole)][-limit:]
    for name in ("last", "waiting", "budget", "policy", "policies"):
        assert rough[name] == whole[name]
    some, every = rough["results"], whole["results"]
    for name in ("positions", "turns", "tokens"):
        assert some[name] == every[name][some["first"] :]
    names = [every["tools"][n] for n in every["names"][some["first"] :]]
    assert [some["tools"][n] for n in some["names"]] == names
    for turn, exact in zip(rough["turns"], noted(whole)[-limit:], strict=True):
        assert turn["uses"] == [use for use in exact["uses"] if use >= some["first"]]
    assert any(turn["uses"] for turn in rough["turns"])


def test_a_call_that_waits_for_its_answer_is_there(goes_on: User) -> None:
    goes_on.api("render", session="s", messages=RUN, budget=900)
    rough = goes_on.api("glimpse", session="s")
    assert rough["waiting"] and rough["last"] == 41
    assert told(rough["turns"][-1]) == told(timeline(goes_on)["turns"][-1])
    call = check(goes_on, window=10)
    assert call["explain"]["turn"] == call["last"] == 41
    assert [line["position"] for line in call["messages"]] == list(range(len(RUN))[-10:])


def test_it_tells_of_the_branch_that_is_asked_for(goes_on: User) -> None:
    goes_on.api("render", session="s", messages=[*RUN[:20], user("Else.")], budget=900)
    rough, whole = (goes_on.api(name, session="s", branch=0) for name in ("glimpse", "timeline"))
    assert rough["branch"] == 0 and rough["last"] == whole["last"] == 41
    forked = goes_on.api("glimpse", session="s")
    assert forked["branch"] == 1
    assert [told(t) for t in forked["turns"]] == [told(t) for t in timeline(goes_on)["turns"]]
    for branch, turn in ((0, 20), (1, 4), (1, None)):
        check(goes_on, branch=branch, turn=turn)


def test_what_was_not_noted_is_not_made_up(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    rough = alice.api("glimpse", session="s")
    assert (rough["turns"], rough["last"]) == ([], 41)
    error = alice.api.refused("glimpse_call", 404, "not_found", session="s", turn=40)
    assert "was not noted" in error["message"]


def test_the_newest_calls_that_were_only_recorded_are_told_first(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN, settings={"budget": 900})
    newest = alice.api("timeline", session="s", start=-4)["turns"]
    assert newest and newest == timeline(alice)["turns"][-5:][: len(newest)]
    assert not newest[0]["noted"] and newest[0]["complete"]


@pytest.mark.parametrize("policy", ["contextrender", "prune"])
def test_a_call_is_told_as_show_call_tells_it(alice: User, policy: str) -> None:
    called(alice.api, "s", MANY, budget=900, policy=policy)
    last = alice.api("timeline", session="s")["last"]
    for turn in {1, 2, last // 2, last - 2, last - 1}:
        check(alice, turn=turn)

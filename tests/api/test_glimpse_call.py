"""One noted call in a moment: as `show_call` tells it, but for reasons and excerpts' words."""

from typing import Any

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.conftest import User
from tests.api.test_call_facts import called
from tests.api.transcripts import agent_run, assistant, call, result, user

RUN = agent_run(25, lines=4)
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


def both(who: User, **fields: Any) -> tuple[Json, Json]:
    rough, whole = (who.api(name, session="s", **fields) for name in ("glimpse_call", "show_call"))
    return rough, whole


def check(rough: Json, whole: Json) -> None:
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


@pytest.mark.parametrize("run", [RUN, MANY])
@pytest.mark.parametrize("policy", ["contextrender", "prune"])
def test_it_tells_what_show_call_tells(alice: User, run: list[Json], policy: str) -> None:
    called(alice, "s", run, budget=900, policy=policy)
    last = alice.api("timeline", session="s")["last"]
    for turn in {1, 2, last // 2, last - 2, last - 1}:
        rough, whole = both(alice, turn=turn)
        check(rough, whole)
        assert len(rough["messages"]) == min(150, len(whole["messages"]))


def test_the_call_that_waits_for_its_answer_is_the_last_one(alice: User) -> None:
    called(alice, "s", RUN, budget=900)
    alice.api("render", session="s", messages=RUN, budget=900)
    rough, whole = both(alice, window=10)
    check(rough, whole)
    assert rough["explain"]["turn"] == rough["last"] == 26
    assert [line["position"] for line in rough["messages"]] == list(range(len(RUN))[-10:])


def test_it_is_of_the_branch_that_is_asked_for(alice: User) -> None:
    called(alice, "s", RUN, budget=900)
    alice.api("render", session="s", messages=[*RUN[:20], user("Else.")], budget=900)
    for branch, turn in ((0, 20), (1, 4), (1, None)):
        check(*both(alice, branch=branch, turn=turn))


def test_what_was_not_noted_is_not_made_up(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    for turn in (None, 1, 25, 26, 27, 0, -1):
        error = alice.api.refused("glimpse_call", 404, "not_found", session="s", turn=turn)
        assert "was not noted" in error["message"]


@pytest.mark.parametrize("window", [0, 401])
def test_a_wrong_window_is_refused(alice: User, window: int) -> None:
    called(alice, "s", RUN[:8], budget=900)
    alice.api.refused("glimpse_call", 422, "invalid_request", session="s", window=window)

"""`recall` returns complete results, by position or by query."""

import re

import pytest

from tests.api.client import Api
from tests.api.conftest import User
from tests.engine.plan.test_auto_budget import reading
from tests.support.transcripts import UNUSUAL, agent_run, assistant, result, user

RUN = agent_run(14, lines=5)


@pytest.fixture
def owner(alice: User) -> User:
    alice.api("render", session="s", messages=RUN, budget=600)
    return alice


def test_recall_by_position_returns_complete_result_with_call(owner: User) -> None:
    results = owner.api("recall", session="s", results=[16, 3])["results"]
    assert [result["position"] for result in results] == [16, 3]
    assert [result["message"] for result in results] == [RUN[16], RUN[3]]
    assert [result["name"] for result in results] == ["get_order"] * 2
    assert results[1]["arguments"] == '{"order_id": "ORD-1000"}'
    assert [result["turn"] for result in results] == [7, 1]
    assert {result["score"] for result in results} == {None}


def test_recall_returns_unusual_results_unchanged(api: Api) -> None:
    api("sync", session="s", messages=UNUSUAL)
    places = [place for place, message in enumerate(UNUSUAL) if message["role"] == "tool"]
    results = api("recall", session="s", results=places)["results"]
    assert [result["message"] for result in results] == [UNUSUAL[place] for place in places]
    names = ["grammar", "object", "json", "none_at_all", "empty", "null", "not_json"]
    assert [result["name"] for result in results] == names


def test_recall_by_query_sorts_by_score(owner: User) -> None:
    report = owner.api("recall", session="s", query="who is clerk_6@example.com?", limit=3)
    results = report["results"]
    assert "clerk_6@example.com" in results[0]["message"]["content"]
    scores = [result["score"] for result in results]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert all(result["message"] == RUN[result["position"]] for result in results)


def test_recall_by_query_searches_current_branch_first(owner: User) -> None:
    api = owner.api
    api("sync", session="s", messages=[*RUN[:6], assistant("Stop."), user("?"), result("x", "y")])
    fields = {"session": "s", "query": "who is clerk_6@example.com?", "limit": 50}
    results = api("recall", **fields)["results"]
    assert (results[0]["branch"], results[0]["message"]) == (0, RUN[16])
    places = [(result["branch"], result["position"]) for result in results]
    assert len(places) == len(set(places))
    assert {place for branch, place in places if branch == 1} <= {3, 5, 8}
    assert not {place for branch, place in places if branch == 0} & {3, 5}


def test_recall_finds_results_before_compaction(owner: User) -> None:
    summary = [user("This session continues. Summary: orders were looked at."), assistant("On.")]
    owner.api("sync", session="s", messages=summary)
    results = owner.api("recall", session="s", query="clerk_6@example.com")["results"]
    assert (results[0]["branch"], results[0]["message"]) == (0, RUN[16])


def test_recall_by_position_falls_back_to_other_branches(owner: User) -> None:
    api = owner.api
    api("sync", session="s", messages=[*RUN[:6], assistant("Stop."), user("?"), result("x", "y")])
    for position, requested, branch in ((3, None, 1), (3, 0, 0), (16, 0, 0), (16, None, 0)):
        (result_row,) = api("recall", session="s", results=[position], branch=requested)["results"]
        assert (result_row["branch"], result_row["message"]) == (branch, RUN[position])
    api.refused("recall", 404, "not_found", session="s", results=[17])
    api.refused("recall", 404, "not_found", session="s", results=[3], branch=2)


def test_restored_text_names_its_result_for_recall(api: Api) -> None:
    run = reading(34, texts={29: "function_2_77 again"})
    live = {"budget": "auto", "policy": "contextrender_cache_aware", "agent_defaults": True}
    for stop in range(3, len(run) + 1, 2):
        messages = api("render", session="s", messages=run[:stop], **live)["messages"]
        last = messages[-1]["content"]
        match = re.search(r"recall result (\d+) for all of it:\]\n.*function_2_", last)
        if match:
            break
    assert match
    (result,) = api("recall", session="s", results=[int(match[1])])["results"]
    assert result["message"] == run[6]
    assert "function_2_77" in result["message"]["content"]


@pytest.mark.parametrize("position", [0, 2, 999, -1, 10**30])
def test_recall_of_position_without_result_is_404(owner: User, position: int) -> None:
    error = owner.api.refused("recall", 404, "not_found", session="s", results=[3, position])
    assert f"message {position} is not a tool result" in error["message"]

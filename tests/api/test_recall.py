"""Complete results, by position or by query."""

import pytest

from tests.api.conftest import User
from tests.support.transcripts import agent_run, assistant, result, user

RUN = agent_run(14, lines=5)


@pytest.fixture
def recorded(alice: User) -> User:
    alice.api("render", session="s", messages=RUN, budget=600)
    return alice


def test_by_position_complete_and_with_the_call(recorded: User) -> None:
    found = recorded.api("recall", session="s", results=[16, 3])["results"]
    assert [each["position"] for each in found] == [16, 3]
    assert [each["message"] for each in found] == [RUN[16], RUN[3]]
    assert [each["name"] for each in found] == ["get_order"] * 2
    assert found[1]["arguments"] == '{"order_id": "ORD-1000"}'
    assert [each["turn"] for each in found] == [7, 1]
    assert {each["score"] for each in found} == {None}


def test_by_query_the_best_first(recorded: User) -> None:
    report = recorded.api("recall", session="s", query="who is clerk_6@example.com?", limit=3)
    found = report["results"]
    assert "clerk_6@example.com" in found[0]["message"]["content"]
    scores = [each["score"] for each in found]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert all(each["message"] == RUN[each["position"]] for each in found)


def test_all_branches_are_looked_in_the_current_one_first(recorded: User) -> None:
    api = recorded.api
    api("sync", session="s", messages=[*RUN[:6], assistant("Stop."), user("?"), result("x", "y")])
    asked = {"session": "s", "query": "who is clerk_6@example.com?", "limit": 50}
    found = api("recall", **asked)["results"]
    assert (found[0]["branch"], found[0]["message"]) == (0, RUN[16])
    places = [(each["branch"], each["position"]) for each in found]
    assert len(places) == len(set(places))
    assert {place for branch, place in places if branch == 1} <= {3, 5, 8}
    assert not {place for branch, place in places if branch == 0} & {3, 5}
    for position, branch, on in ((3, None, 1), (3, 0, 0), (16, None, 0)):
        (one,) = api("recall", session="s", results=[position], branch=branch)["results"]
        assert (one["branch"], one["message"]) == (on, RUN[position])
    api.refused("recall", 404, "not_found", session="s", results=[3], branch=2)


def test_a_position_without_a_result_is_said_so(recorded: User) -> None:
    for position in (2, -1, 10**30):
        error = recorded.api.refused("recall", 404, "not_found", session="s", results=[3, position])
        assert f"message {position} is not a tool result" in error["message"]

"""Search of one session, or of all sessions of a user."""

import importlib
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.client import Api
from tests.api.conftest import User
from tests.support.transcripts import agent_run, assistant, call, result, user

RUN = agent_run(6, lines=3)


@pytest.fixture
def api(alice: User) -> Api:
    alice.api("sync", session="old", messages=RUN)
    alice.api("sync", session="new", messages=RUN[:6])
    return alice.api


def places_of(matches: list[Json]) -> list[tuple[str, int, str]]:
    return [(match["session"], match["position"], match["kind"]) for match in matches]


def all_matches(api: Api, **fields: Any) -> list[Json]:
    pages = api.pages("search", "cursor", **fields)
    return [match for page in pages for match in page["matches"]]


def test_search_finds_contents_newest_first(api: Api) -> None:
    matches = all_matches(api, query="CLERK_1@example")
    (position,) = [
        position
        for position, message in enumerate(RUN)
        if "precedes ORD-1002" in message["content"]
    ]
    assert places_of(matches) == [("new", position, "result"), ("old", position, "result")]
    first = matches[0]
    reply = api("read_message", session="new", position=first["position"])
    start = first["start"]
    assert first["match"] == "clerk_1@example" == reply["text"][start : start + 15]
    assert reply["text"][:start].endswith(first["text_before"])
    assert first["text_after"] and first["text_after"] in reply["text"]
    assert (first["name"], first["tokens"]) == ("get_order", reply["tokens"])


def test_search_finds_tools_arguments_and_texts(api: Api) -> None:
    calls = all_matches(api, session="new", query="get_ORDER")
    assert {call["kind"] for call in calls} == {"call"} and len(calls) == 2
    assert {call["name"] for call in calls} == {"get_order"}
    kinds = {match["kind"] for match in all_matches(api, session="old", query="ORD-1000")}
    assert kinds == {"user", "assistant", "call", "result"}
    tool_matches = all_matches(api, session="old", query="ORD-1000", tool="get_order")
    assert {match["kind"] for match in tool_matches} == {"call", "result"}
    assert not all_matches(api, query="ORD-1000", tool="get")


def test_search_finds_errors_with_or_without_query(api: Api) -> None:
    run = [
        user("Go."),
        assistant(None, call("a", "read"), call("b", "read"), call("c", "list")),
        result("a", "Error: no such file"),
        result("b", "all is well, Error: is only a word here"),
        {**result("c", "denied"), "is_error": True},
    ]
    api("sync", session="failed", messages=run)
    read, listed = ("failed", 2, "result"), ("failed", 4, "result")
    assert places_of(all_matches(api, errors=True)) == [listed, read]
    assert places_of(all_matches(api, errors=True, tool="read")) == [read]
    assert places_of(all_matches(api, errors=True, query="SUCH file")) == [read]
    matches = all_matches(api, session="failed", query="word")
    assert [match["failed"] for match in matches] == [False]


def test_pages_have_every_match_once(api: Api) -> None:
    matches = all_matches(api, query="ord-", limit=100)
    assert len(matches) > 20
    for limit in (1, 7):
        assert all_matches(api, query="ord-", limit=limit) == matches


def test_message_shared_by_branches_is_found_once(api: Api) -> None:
    api("sync", session="old", messages=[*RUN[:8], user("Rather look at ORD-1003.")])
    matches = all_matches(api, session="old", query="ORD-1003", limit=1)
    assert matches[0]["branch"] == 1 and matches[0]["position"] == 8
    keys = [(match["branch"], match["position"], match["kind"], match["name"]) for match in matches]
    assert len(set(keys)) == len(keys) and {branch for branch, *_ in keys} == {0, 1}


def test_search_finishes_in_many_short_requests(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    matches = all_matches(api, query="ord-", limit=100)
    monkeypatch.setattr(importlib.import_module("walkers.search"), "WORK_SECONDS", 0.0)
    page = api("search", query="ord-", limit=100)
    assert page["events"] == 1 and page["next"] is not None
    assert all_matches(api, query="ord-", limit=100) == matches


def test_cursor_is_valid_only_for_its_session(api: Api) -> None:
    cursor = api("search", session="old", query="ord-", limit=1)["next"]
    api.refused("search", 422, "invalid_request", session="new", query="ord-", cursor=cursor)
    api.refused("search", 404, "not_found", session="nothing", query="ord-")


def test_search_finds_nothing_of_another_user(api: Api, bob: User) -> None:
    cursor = api("search", query="ord-", limit=1)["next"]
    for fields in ({}, {"cursor": cursor}):
        assert bob.api("search", query="ord-", **fields)["matches"] == []

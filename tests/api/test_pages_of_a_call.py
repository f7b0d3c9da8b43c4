"""A page of a call's results or messages is that part of the whole reply."""

import pytest
from contextrender_bridge.base.wire import Json

from engine.call.page import COLUMNS
from tests.api.client import Api
from tests.api.conftest import Service
from tests.support.transcripts import agent_run

RUN = agent_run(30, lines=6)
REST = ("count", "complete", "replaced", "whole_tokens", "call_tokens", "tokens", "warnings")


@pytest.fixture(scope="module")
def agent(service: Service) -> Api:
    api = service.new_user().api
    api("render", session="s", messages=RUN, budget=900)
    return api


def rows(api: Api, **fields: object) -> list[Json]:
    told: list[Json] = api("explain", session="s", **fields)["results"]
    return told


def test_pages_together_are_everything(agent: Api) -> None:
    whole = agent("explain", session="s")
    assert whole["count"] == len(whole["results"]) == 30
    for sort in ("", *COLUMNS):
        ordered = rows(agent, sort=sort)
        assert sorted(ordered, key=lambda row: row["position"]) == whole["results"]
        pages = [rows(agent, sort=sort, first=first, rows=7) for first in range(0, 35, 7)]
        assert [row for page in pages for row in page] == ordered
        page = agent("explain", session="s", sort=sort, rows=7)
        assert {name: page[name] for name in REST} == {name: whole[name] for name in REST}


def test_they_are_in_the_order_of_their_column(agent: Api) -> None:
    for sort in [name for name in COLUMNS if name != "order"]:
        for down in (False, True):
            values = [row[sort] for row in rows(agent, sort=sort, down=down)]
            assert values == sorted(values, reverse=down)


def test_a_window_has_the_last_messages_and_the_last_shown(agent: Api) -> None:
    whole = agent("show_call", session="s")
    lines = whole["messages"]
    seen = [
        line
        for line in lines
        if line["shown"] != "omitted" or any(call["shown"] for call in line["calls"])
    ]
    for until, stop in ((None, len(lines)), (41, 41)):
        earlier = [line for line in seen if line["position"] < stop - 5]
        page = agent("show_call", session="s", window=5, until=until)
        assert page["messages"] == [*earlier[-5:], *lines[stop - 5 : stop]]
        assert (page["before"], page["got"]) == (len(RUN), len(seen))
    assert agent("show_call", session="s", window=0)["messages"] == []

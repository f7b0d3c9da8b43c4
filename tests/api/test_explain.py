"""`explain` and `get_call`: the reason for each result, the uses behind its reuse score, and
pages.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from math import exp
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.call.render_call import render_call
from contextrender_bridge.engine.call.result_page import COLUMNS
from contextrender_bridge.engine.replay import branch_replay
from contextrender_bridge.store.base import Store

from tests.api.client import Api
from tests.api.conftest import Service, User
from tests.support.transcripts import agent_run, assistant, call, result, user

FLOW = [
    user("Find the order of Ann."),
    assistant(None, call("u", "find_user", "{}")),
    result("u", "user_17 ann@example.com"),
    assistant(None, call("o", "list_orders", '{"user": "user_17"}')),
    result("o", "user_17 has ORD-5 and ORD-500"),
    assistant("ORD-500 it is, of user_17.", call("d", "details", '{"order": "ORD-500"}')),
    result("d", "ORD-500 shipped " + "far away " * 300),
]
RUN = agent_run(14, lines=5)
PATIENCE = 120.0
"""Seconds, far more than needed: a passing test never waits this long."""


def sync_and_explain(api: Api, messages: list[Json], **fields: object) -> Json:
    api("sync", session="s", messages=messages)
    report: Json = api("explain", session="s", **fields)
    return report


def test_uses_have_operation_and_count_of_each_value(api: Api) -> None:
    first, second, third = sync_and_explain(api, FLOW)["results"]
    assert first["uses"] == [
        {
            "turn": 2,
            "position": 3,
            "name": "list_orders",
            "values": [{"value": "user_17", "results": 2}],
        },
        {"turn": 3, "position": 5, "name": "", "values": [{"value": "user_17", "results": 2}]},
    ]
    assert [(use["name"], use["values"]) for use in second["uses"]] == [
        ("", [{"value": "ORD-500", "results": 2}]),
        ("details", [{"value": "ORD-500", "results": 2}]),
    ]
    assert third["uses"] == []
    assert [row["reuse"] for row in (first, second, third)] == [1.0, 1.0, 0.0]


def test_scores_follow_the_formula(api: Api) -> None:
    report = sync_and_explain(api, FLOW, budget=200)
    assert [row["age"] for row in report["results"]] == [3, 2, 1]
    assert [row["turn"] for row in report["results"]] == [1, 2, 3]
    for row in report["results"]:
        expected = exp(-0.3 * row["age"]) + 1 - exp(-0.2 * row["reuse"]) + row["relevance"]
        assert row["usefulness"] == pytest.approx(expected, abs=1e-9)
        assert row["score"] <= row["usefulness"]


def test_explain_agrees_with_render(api: Api) -> None:
    for budget in (300, 900, 1500, 50_000):
        reply = api("render", session="s", messages=RUN, budget=budget)
        report = api("explain", session="s", budget=budget)
        rows = report["results"]
        for display in ("complete", "omitted"):
            assert [row["position"] for row in rows if row["display"] == display] == reply[display]
        for name in ("tokens_before", "tokens_after", "tokens_unbudgeted"):
            assert report[name] == reply[name]
        assert (report["turn"], report["budget"]) == (reply["turn"], budget)
        order = sorted(row["order"] for row in rows if row["order"])
        assert order == list(range(1, len(reply["complete"]) + 1))
        within = sum(row["cost"] for row in rows if row["display"] == "complete")
        assert report["text_tokens"] + within == reply["tokens_after"]


def test_every_result_has_a_reason(api: Api) -> None:
    left_out = sync_and_explain(api, [*RUN, result("nobody", "stray")], budget=900)["results"]
    reasons = {row["position"]: row["reason"] for row in left_out}
    assert reasons.pop(len(RUN)) == "no call asked for it"
    assert set(reasons.values()) == {"selected", "no room left after others were taken"}
    assert all((row["order"] is None) == (row["display"] == "omitted") for row in left_out)
    results = api("explain", session="s", budget=50_000)["results"]
    assert {row["reason"] for row in results[:-1]} == {"the whole history fits"}
    oversized = sync_and_explain(api, FLOW, budget=500)["results"][-1]
    assert oversized["reason"].startswith("larger than the budget, so excerpt of at most")


def test_omitted_result_has_remaining_tokens(api: Api) -> None:
    api("sync", session="s", messages=RUN)
    for budget in (600, 900, 1_500):
        view = api("explain", session="s", budget=budget)
        rows = view["results"]
        selected = sorted((row for row in rows if row["order"]), key=lambda row: row["order"])
        for row in (row for row in rows if row["display"] == "omitted"):
            assert row["remaining_tokens"] is not None
            if row["selected_count"] is None:
                continue
            before = sum(other["cost"] for other in selected[: row["selected_count"]])
            assert row["remaining_tokens"] == budget - view["text_tokens"] - before
            if row["reason"].startswith("too large"):
                assert row["cost"] > row["remaining_tokens"]
                assert (
                    row["cost"]
                    <= row["remaining_tokens"] + selected[row["selected_count"] - 1]["cost"]
                )


def test_earlier_turn_is_explained_as_recorded(api: Api) -> None:
    run = agent_run(7, lines=5)
    answers = [place for place, message in enumerate(run) if message["role"] == "assistant"]
    expected: list[Json] = []
    for turn, place in enumerate(answers, 1):
        api("sync", session=f"until {turn}", messages=run[:place])
        expected.append(api("explain", session=f"until {turn}", budget=600))
    api("sync", session="s", messages=run)
    for turn, before in enumerate(expected, 1):
        assert api("explain", session="s", budget=600, turn=turn) == before | {"session": "s"}
    assert api("explain", session="s", turn=len(answers) + 1) == api("explain", session="s")


def test_only_what_was_written_since_is_read(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api("render", session="s", messages=RUN, budget=400, policy="contextrender")
    first = api("explain", session="s")
    with monkeypatch.context() as unreadable:
        unreadable.setattr(Store, "edges_from", lambda *_: pytest.fail("edges were read again"))
        assert api("explain", session="s") == first
    # A reply without usage changes no counts of the session, but must be read.
    api("record_usage", session="s", usage={"messages": len(RUN), "status": 529})
    assert api("timeline", session="s")["turns"][-1]["status"] == 529


@pytest.mark.parametrize("walker", ["explain", "get_call"])
def test_sync_does_not_wait_for_explain(
    alice: User, monkeypatch: pytest.MonkeyPatch, walker: str
) -> None:
    """The view is blocked while it renders."""
    started, opened = threading.Event(), threading.Event()

    def blocked_render(*args: Any, **options: Any) -> Any:
        started.set()
        assert opened.wait(PATIENCE)
        return render_call(*args, **options)

    monkeypatch.setattr(branch_replay, "render_call", blocked_render)
    alice.api("sync", session="s", messages=RUN)
    with ThreadPoolExecutor(1) as threads:
        looking = threads.submit(alice.api, walker, session="s")
        try:
            assert started.wait(PATIENCE)
            longer = [*RUN, user("And now?")]
            assert alice.api("sync", session="s", messages=longer)["offset"] == len(longer)
            assert not looking.done()
        finally:
            opened.set()
        assert len(looking.result()) > 1


LONG = agent_run(30, lines=6)
PAGE_FIELDS = (
    "count",
    "complete",
    "substitutes",
    "complete_tokens",
    "call_tokens",
    "tokens_before",
    "tokens_after",
    "warnings",
)


@pytest.fixture(scope="module")
def api_of_long_session(service: Service) -> Api:
    api = service.new_user().api
    api("render", session="s", messages=LONG, budget=900)
    return api


def rows(api: Api, **fields: object) -> list[Json]:
    results: list[Json] = api("explain", session="s", **fields)["results"]
    return results


def test_pages_together_have_all_results(api_of_long_session: Api) -> None:
    reply = api_of_long_session("explain", session="s")
    assert reply["count"] == len(reply["results"]) == 30
    for sort in ("", *COLUMNS):
        sorted_rows = rows(api_of_long_session, sort=sort)
        assert sorted(sorted_rows, key=lambda row: row["position"]) == reply["results"]
        pages = [rows(api_of_long_session, sort=sort, offset=offset, rows=16) for offset in (0, 16)]
        assert [row for page in pages for row in page] == sorted_rows
        page = api_of_long_session("explain", session="s", sort=sort, rows=16)
        assert {name: page[name] for name in PAGE_FIELDS} == {
            name: reply[name] for name in PAGE_FIELDS
        }


def test_rows_are_sorted_by_column(api_of_long_session: Api) -> None:
    for sort in [name for name in COLUMNS if name != "order"]:
        for descending in (False, True):
            values = [
                row[sort] for row in rows(api_of_long_session, sort=sort, descending=descending)
            ]
            assert values == sorted(values, reverse=descending)


def test_window_has_last_messages_and_last_shown_messages(api_of_long_session: Api) -> None:
    lines = api_of_long_session("get_call", session="s")["messages"]
    shown_lines = [
        line
        for line in lines
        if line["display"] != "omitted" or any(call["in_prompt"] for call in line["calls"])
    ]
    for end, stop in ((None, len(lines)), (41, 41)):
        earlier = [line for line in shown_lines if line["position"] < stop - 5]
        page = api_of_long_session("get_call", session="s", window=5, end=end)
        assert page["messages"] == [*earlier[-5:], *lines[stop - 5 : stop]]
        assert page["history_messages"] == len(LONG)
    assert api_of_long_session("get_call", session="s", window=0)["messages"] == []


def test_timeline_from_end_returns_newest_calls(alice: User) -> None:
    alice.api("sync", session="s", messages=LONG, settings={"budget": 900})
    newest = alice.api("timeline", session="s", start=-4)["turns"]
    turns = alice.api.rows("timeline", "turns", session="s")
    assert newest and newest == turns[-5:][: len(newest)]
    assert not newest[0]["recorded"] and newest[0]["complete"]

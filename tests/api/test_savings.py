"""Savings and totals of sessions: equal over HTTP, in the terminal and in the metrics."""

import re
from typing import Any

import pytest
from contextrender_bridge.cli.inspect.savings import draw, group_rows
from contextrender_bridge.server.watching import metrics
from rich.console import Console

from tests.api.conftest import Service, User
from tests.support.transcripts import (
    agent_run,
    assistant,
    call,
    numbers_in,
    render_calls,
    result,
    user,
)

USER_PRICES = ["gpt-5.1:input=2,cached=1,output=10", "*:input=1,output=1"]


def sums(rows: list[dict[str, Any]], name: str) -> Any:
    return sum(row[name] for row in rows)


def test_total_savings_counts_every_session(alice: User) -> None:
    """Regression: many small sessions once removed a large one from the sum."""
    replies = render_calls(alice.api, "large", agent_run(12), budget=700, model="gpt-5.1")
    for number in range(8):
        messages = [user(f"Task {number}?"), assistant("Done.")]
        first = alice.api("render", session=f"small-{number}", messages=messages[:1], output="plan")
        new = {"messages": messages[1:], "offset": 1, "prefix": first["digest"]}
        alice.api("sync", session=f"small-{number}", **new)
    view = alice.api("total_savings")
    assert (view["sessions"], view["sessions_counted"]) == (9, 9)
    assert sums(view["rows"], "calls") == 8 + len(replies)
    (large,) = [row for row in view["rows"] if row["model"] == "gpt-5.1"]
    assert large["full"] - large["prompt"] == sum(
        reply["tokens_before"] - reply["tokens_after"] for reply in replies
    )


def test_rows_are_grouped_by_client_model_policy_and_delivery(alice: User) -> None:
    run = agent_run(6)
    render_calls(alice.api, "one", run, budget=700, model="gpt-5.1", client="c", policy="prune")
    render_calls(alice.api, "two", run, budget=700, model="gpt-5.1", delivery="holdout")
    alice.api("sync", session="three", messages=run)
    view = alice.api("total_savings")
    assert (view["sessions"], view["sessions_counted"]) == (3, 2)
    by_policy = {row["policy"]: row for row in view["rows"]}
    rendered, holdout = by_policy["prune"], by_policy["contextrender"]
    assert (rendered["client"], rendered["delivery"], holdout["delivery"]) == (
        "c",
        "rendered",
        "holdout",
    )
    assert holdout["prompt"] == holdout["full"] > rendered["prompt"]
    assert holdout["cost"] == holdout["full_cost"]
    assert alice.api("total_savings", policy="prune")["rows"] == [rendered]
    assert alice.api("total_savings", since="2999-01-01")["rows"] == []


def test_own_prices_apply_and_can_show_a_loss(alice: User) -> None:
    """If cached tokens are free, a prompt that changes at each call costs more."""
    render_calls(alice.api, "run", agent_run(12), budget=900, model="gpt-5.1")
    (row,) = alice.api("total_savings", prices=USER_PRICES)["rows"]
    uncached, cached = row["prompt"] - row["cached"], row["cached"]
    assert row["cost"] == pytest.approx((2 * uncached + cached + 10 * row["output"]) / 1e6)
    full = row["full_capped"] - row["full_capped_cached"]
    expected = (2 * full + row["full_capped_cached"] + 10 * row["output"]) / 1e6
    assert row["full_cost"] == pytest.approx(expected)
    (free,) = alice.api("total_savings", prices=["gpt-5.1:input=2,cached=0,output=0"])["rows"]
    assert free["cost"] > free["full_cost"]


def test_full_history_cost_is_capped_at_model_window(alice: User) -> None:
    render_calls(alice.api, "run", agent_run(8, lines=400), budget=700, model="gpt-4")
    (row,) = alice.api("total_savings")["rows"]
    assert row["full_capped"] <= 8_192 * row["calls"] < row["full"]


def test_metrics_have_stored_totals(
    alice: User, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "CACHE_SECONDS", -1.0)
    render_calls(alice.api, "run", agent_run(6), budget=700, model="o3-mini")
    render_calls(alice.api, "made up", agent_run(3), model="secret-in-a-name")
    text = service.http.get("/metrics").text
    names = 'delivery="rendered",model="o3-mini",policy="contextrender"'
    assert f"contextrender_stored_calls{{{names}}} 6.0" in text
    rows = alice.api("total_savings")["rows"]
    (row,) = [row for row in rows if row["model"] == "o3-mini"]
    names = 'delivery="rendered",model="o3-mini",policy="contextrender",side="sent"'
    assert f"contextrender_stored_prompt_tokens{{{names}}} {float(row['prompt'])}" in text
    assert 'model="other"' in text
    assert "secret" not in text


def row(**changed: Any) -> dict[str, Any]:
    names = ("calls", "full", "full_capped", "prompt", "steps", "steps_with_misses")
    fields: dict[str, Any] = dict.fromkeys(names, 10)
    fields |= {
        "day": "2026-11-22",
        "model": "m",
        "client": "",
        "policy": "p",
        "delivery": "rendered",
    }
    fields |= {"price_source": "", "cost": 1.0, "full_cost": 2.0, "is_estimate": False}
    return fields | changed


def test_table_sums_rows_and_shows_losses_in_red() -> None:
    free = dict.fromkeys(("cost", "full_cost"))
    rows = [
        row(),
        row(day="2026-11-23", model="own", prompt=30, **free),
        row(model="lost", cost=3.0, full_cost=2.5, is_estimate=True),
    ]
    assert group_rows(rows, ["policy"])["p"]["calls"] == 30
    out = Console(width=120, color_system="standard", force_terminal=True)
    with out.capture() as capture:
        out.print(draw({"sessions": 2, "sessions_counted": 2, "rows": rows}, ["model"]))
    red = re.findall(r"\x1b\[31m *([^ \x1b]+)", capture.get())
    assert "~$3.00" in red  # more than the full history's $2.50
    assert "-200%" in red and "$1.00" not in red
    text = re.sub(r"\x1b\[[\d;]*m", "", capture.get())
    assert "2 of 2 sessions" in text
    assert " 10 calls are of models without a price" in re.sub(r"\s+", " ", text)
    (line_of_model,) = [line for line in text.splitlines() if line.startswith("own ")]
    assert "$" not in line_of_model


def test_session_list_has_totals_of_each_session(alice: User) -> None:
    render_calls(alice.api, "one", agent_run(12), budget=700)
    alice.api("sync", session="two", messages=agent_run(3))
    two, first = (row["totals"] for row in alice.api("list_sessions")["sessions"])
    names = ["calls", "full", "prompt", "results_used", "results_used_visible"]
    names += ["steps", "steps_with_misses", "misses"]
    zeros = dict.fromkeys(names, 0)
    assert two == zeros | {"models": [], "cost": None, "full_cost": None, "is_estimate": False}
    rows = alice.api("total_savings")["rows"]
    for name, summed in (
        ("full", "full_capped"),
        ("calls",) * 2,
        ("prompt",) * 2,
        ("results_used",) * 2,
    ):
        assert first[name] == sums(rows, summed) > 0
    assert first["results_used_visible"] == sums(rows, "results_used_visible")
    assert alice.api("inspect_session", session="one")["session"]["totals"] == first


def test_sessions_are_sorted_and_filtered_by_totals(alice: User) -> None:
    render_calls(alice.api, "small", agent_run(6), budget=700, model="gpt-4o")
    render_calls(alice.api, "large", agent_run(20), budget=700, model="claude-sonnet-4-5")
    alice.api("sync", session="recorded", messages=agent_run(3))

    def names(**params: Any) -> list[str]:
        return [session["session"] for session in alice.api("list_sessions", **params)["sessions"]]

    assert names() == ["recorded", "large", "small"]
    assert names(sort="tokens") == names(sort="cost") == ["large", "small", "recorded"]
    assert names(query="SONNET") == ["large"]
    assert names(since="2999-01-01") == []
    first = alice.api("list_sessions", sort="cost", limit=2)
    reply = alice.api("list_sessions", sort="cost", limit=2, cursor=first["next"])
    assert [session["session"] for session in reply["sessions"]] == ["recorded"]
    assert reply["next"] is None
    assert names(sort="model") == ["large", "small", "recorded"]
    shop = [assistant("", call("a", "ship", ""), call("b", "get_order", ""), call("c", "ship", ""))]
    alice.api("sync", session="shipped", messages=[user("Ship it."), *shop])
    assert names(query="SHIP", sort="tools") == ["shipped"]
    assert names(sort="tools") == ["large", "small", "shipped", "recorded"]
    assert names(query="get_o", sort="tools")[-1] == "shipped"
    (newest,) = alice.api("list_sessions", limit=1)["sessions"]
    assert newest["tools"] == {"ship": 2, "get_order": 1}


RUN = [
    *agent_run(14),
    # Two operations of one turn use the same result: one use, two edges.
    assistant("ORD-1003 again.", call("a", "get_order", '{"order_id": "ORD-1003"}')),
    result("a", "order ORD-1003 is where it was"),
]


@pytest.mark.parametrize("has_open_question", [False, True])
def test_every_view_has_equal_counts(alice: User, has_open_question: bool) -> None:
    run = [*RUN, assistant("ORD-1003 it is."), *([user("And ORD-1004?")] * has_open_question)]
    render_calls(alice.api, "s", run, budget=700)
    answers = sum(message["role"] == "assistant" for message in run)
    results = sum(message["role"] == "tool" for message in run)
    (listed,) = alice.api("list_sessions")["sessions"]
    inspected = alice.api("inspect_session", session="s")
    timeline = alice.api("timeline", session="s")
    newest = alice.api("timeline", session="s", start=-2)
    graph = alice.api("reuse_graph", session="s")
    explained = alice.api("explain", session="s")["results"]
    misses = alice.api("misses", session="s")
    (saved,) = alice.api("total_savings")["rows"]

    assert timeline["awaits_answer"] is newest["awaits_answer"] is has_open_question
    for last in (
        timeline["turn_count"],
        newest["turn_count"],
        graph["turn_count"],
        misses["turn_count"],
    ):
        assert last - has_open_question == answers
    assert len(timeline["turns"]) - has_open_question == saved["calls"] == answers
    for session in (listed, inspected["session"]):
        assert (session["turns"], session["results"]) == (answers, results)
        assert session["totals"]["calls"] == answers
    for view in (timeline, graph):
        assert len(view["results"]["positions"]) == results
    assert len(explained) == sum(tool["results"] for tool in inspected["tools"]) == results

    edges = {(edge["operation"], edge["result"]) for edge in graph["edges"]}
    assert len(edges) == sum(len(row["uses"]) for row in explained)
    turn_of = {operation["event"]: operation["turn"] for operation in graph["operations"]}
    uses = {(turn["turn"], use) for turn in timeline["turns"] for use in turn["uses"]}
    assert uses == {(turn_of[operation], result) for operation, result in edges}
    assert newest["turns"] == timeline["turns"][-3:]
    assert (
        len(uses)
        == inspected["uses"]
        == saved["results_used"]
        == listed["totals"]["results_used"]
        < len(edges)
    )
    assert sum(tool["reused"] for tool in inspected["tools"]) == len({result for _, result in uses})

    complete_by_turn = {
        turn["turn"]: set(numbers_in(turn["complete"])) for turn in timeline["turns"]
    }
    visible_uses = {(turn, result) for turn, result in uses if result in complete_by_turn[turn]}
    assert (
        len(visible_uses)
        == saved["results_used_visible"]
        == listed["totals"]["results_used_visible"]
        < len(uses)
    )
    missed = {(turn["turn"], miss) for turn in timeline["turns"] for miss in turn["misses"]}
    assert missed == {(miss["turn"], miss["result"]) for miss in misses["misses"]}


MESSAGES = [user("Go."), assistant("Done."), user("And now?"), assistant("That is all.")]


@pytest.mark.parametrize("has_usage", [False, True])
def test_cost_uses_provider_usage_before_estimate(alice: User, has_usage: bool) -> None:
    first = alice.api("render", session="s", messages=MESSAGES[:1], model="gpt-5.1", output="plan")
    usage = {"messages": 1, "uncached": 1_000_000, "model": "gpt-5.1"}
    fields = {"usage": usage} if has_usage else {}
    new = {"messages": MESSAGES[1:2], "offset": 1, "prefix": first["digest"]}
    alice.api("sync", session="s", **new, **fields)
    (view,) = alice.api("list_sessions")["sessions"]
    totals = view["totals"]
    assert totals["is_estimate"] is not has_usage
    if has_usage:
        assert totals["cost"] == pytest.approx(1.25)
    else:
        assert 0 < totals["cost"] < 0.01

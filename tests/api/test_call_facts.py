"""The stored node of each model call and its edges to the answer and the results, over HTTP."""

import re
from unittest.mock import Mock

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine import policies
from contextrender_bridge.engine.call.render_call import render_call
from contextrender_bridge.engine.policies import POLICIES

from tests.api.checks import build_prompt
from tests.api.conftest import User
from tests.console.transcripts import make_run
from tests.support import slow_rules
from tests.support.transcripts import agent_run, numbers_in, render_calls, user

MISS_FIELDS = ("name", "display", "reason", "remaining_tokens", "selected_count", "cost")
SIZES = ("tokens_before", "tokens_after", "tokens_unbudgeted")


def facts(user: User) -> dict[int, Json]:
    pairs = user.graph().pairs("AnsweredBy")
    return {answer.fields["position"]: call.fields for call, answer, _ in pairs}


def test_each_call_stores_its_prompt_and_settings(alice: User) -> None:
    run = agent_run(12)
    replies = render_calls(alice.api, "run", run, budget=700, model="gpt-5.1", client="tester")
    calls_by_position = facts(alice)
    answers = [position for position, message in enumerate(run) if message["role"] == "assistant"]
    assert sorted(calls_by_position) == answers
    results = [position for position, message in enumerate(run) if message["role"] == "tool"]
    turns = alice.api("timeline", session="run")["turns"]
    for position, view in zip(answers, replies, strict=True):
        call = calls_by_position[position]
        assert call["tokens"][:3] == [view[name] for name in SIZES]
        assert (call["budget"], call["policy"]) == (700, view["policy"])
        assert (call["model"], call["client"]) == ("gpt-5.1", "tester")
        (turn,) = (turn for turn in turns if turn["turn"] == call["turn"])
        assert [results[number] for number in numbers_in(turn["complete"])] == view["complete"]
    assert len(alice.graph().pairs("HasFirstCall")) == 1
    assert len(alice.graph().pairs("NextCall")) == len(answers) - 1
    (row,) = alice.api("total_savings")["rows"]
    sizes = [[view[name] for name in SIZES] for view in replies]
    names = [row[name] for name in ("client", "model", "policy", "delivery")]
    assert names == ["tester", "gpt-5.1", "contextrender", "rendered"]
    assert row["calls"] == len(answers)
    assert row["over_budget"] == sum(before > 700 for before, _, _ in sizes)
    assert (
        row["full"]
        == row["full_capped"]
        == sum(before + unbudgeted for before, _, unbudgeted in sizes)
    )
    assert row["prompt"] == sum(after + unbudgeted for _, after, unbudgeted in sizes)


@pytest.mark.parametrize("policy", ["contextrender", "contextrender_cache_aware"])
def test_edges_record_shown_and_dropped_results(alice: User, policy: str) -> None:
    """The edges of all calls, applied in order, give the results of each prompt."""
    replies = render_calls(alice.api, "run", agent_run(30), budget=900, policy=policy)
    graph = alice.graph()
    graph.check()
    calls = sorted(graph.of("ModelCall"), key=lambda call: call.fields["turn"])
    assert [call.fields["turn"] for call in calls] == list(range(1, 31))
    kind_by_position: dict[int, str] = {}
    changes = 0
    for call, view in zip(calls, replies, strict=True):
        for kind in ("ShowsComplete", "ShowsExcerpt", "Drops"):
            for source, target, _ in graph.pairs(kind):
                if source.id == call.id:
                    kind_by_position[target.fields["position"]] = kind
                    changes += 1
        assert [
            position
            for position in sorted(kind_by_position)
            if kind_by_position[position] == "ShowsComplete"
        ] == view["complete"]
        assert {
            position
            for position in kind_by_position
            if kind_by_position[position] == "ShowsExcerpt"
        } == {substitute["position"] for substitute in view["substitutes"]}
    assert changes < 4 * len(calls)


def test_repeated_answer_has_its_own_call_node(alice: User) -> None:
    run = agent_run(8)
    render_calls(alice.api, "run", run, budget=700)
    end = [position for position, message in enumerate(run) if message["role"] == "assistant"][3]
    alice.api("render", session="run", messages=run[:end], budget=900)
    other = {**run[end], "content": "Another way to say it."}
    alice.api("render", session="run", messages=[*run[:end], other, *run[end + 1 :]], budget=900)
    edges = alice.graph().pairs("AnsweredBy")
    budgets = [
        model_call.fields["budget"]
        for model_call, answer, _ in edges
        if answer.fields["position"] == end
    ]
    assert sorted(budgets) == [700, 900]


def test_provider_usage_is_stored_with_its_call(alice: User) -> None:
    """The usage arrives with the next call or alone, before or after the answer. It counts once."""
    run = agent_run(4)
    first, second, third, *_ = [
        position for position, message in enumerate(run) if message["role"] == "assistant"
    ]
    tokens = {"uncached": 10, "cache_read": 20, "cache_write": 30, "output": 5}
    reported = {**tokens, "model": "gpt-5.1"}
    alice.api("render", session="run", messages=run[:first])
    usage = {"messages": first, **reported}
    alice.api("render", session="run", messages=run[:second], usage=usage)
    reply = alice.api("record_usage", session="run", usage={"messages": second, **reported})
    assert reply["recorded"]
    alice.api("render", session="run", messages=run[:third], delivery="holdout")
    alice.api("sync", session="run", messages=run)
    usage_report = {"messages": third, **reported, "delivery": "full"}
    assert alice.api("record_usage", session="run", usage=usage_report)["recorded"]
    assert alice.api("record_usage", session="run", usage=usage_report)["recorded"]
    assert not alice.api("record_usage", session="run", usage={**usage_report, "messages": 1})[
        "recorded"
    ]
    calls_by_position = facts(alice)
    assert [calls_by_position[position]["usage"] for position in (first, second, third)] == [
        [10, 20, 30, 0, 5]
    ] * 3
    assert [calls_by_position[position]["delivery"] for position in (first, second, third)] == [
        "",
        "",
        "holdout",
    ]
    (session,) = alice.graph().of("Session")
    by_sent = {row[4]: row for row in session.fields["usage_totals"]}
    assert by_sent["rendered"][5 + 11 : 5 + 17] == [2, 20, 40, 60, 0, 10]
    assert by_sent["holdout"][5] == by_sent["holdout"][5 + 11] == 1


def by_model(user: User) -> dict[str, tuple[int, int, int]]:
    """Return the calls, the calls with usage and the answers' tokens of each model."""
    rows = user.api("total_savings")["rows"]
    return {row["model"]: (row["calls"], row["calls_with_usage"], row["output"]) for row in rows}


def test_late_usage_moves_a_call_to_the_model_that_it_names(alice: User) -> None:
    run = agent_run(4)
    first, second, *_ = [
        position for position, message in enumerate(run) if message["role"] == "assistant"
    ]
    alice.api("render", session="run", messages=run[:first], model="alias", budget=300)
    alice.api("render", session="run", messages=run[:second], model="alias", budget=300)
    alice.api("sync", session="run", messages=run)
    calls, with_usage, output = by_model(alice)["alias"]
    assert (calls, with_usage) == (2, 0)
    tokens = {"uncached": 10, "output": 5}
    for position, model in ((second, "gpt-5.1"), (first, "")):
        usage = {"messages": position, **tokens, "model": model, "requested_model": "alias"}
        assert alice.api("record_usage", session="run", usage=usage)["recorded"]
    moved = by_model(alice)
    assert {name: row[:2] for name, row in moved.items()} == {"alias": (1, 1), "gpt-5.1": (1, 1)}
    assert moved["alias"][2] + moved["gpt-5.1"][2] == output
    assert min(row[2] for row in moved.values()) > 0


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]])
def test_usage_is_of_the_call_to_its_model(alice: User, order: list[str]) -> None:
    """The history is sent to another model again after its answer is recorded."""
    run = agent_run(2)
    first, second, *_ = [
        position for position, message in enumerate(run) if message["role"] == "assistant"
    ]
    alice.api("render", session="run", messages=run[:first], model="a")
    alice.api("render", session="run", messages=run[:second], model="a")
    alice.api("render", session="run", messages=run[:first], model="b")
    for model in order:
        usage = {"messages": first, "uncached": 10, "model": model, "requested_model": model}
        assert alice.api("record_usage", session="run", usage=usage)["recorded"]
    assert {name: row[:2] for name, row in by_model(alice).items()} == {"a": (1, 1), "b": (1, 1)}


def test_late_report_without_usage_is_shown_with_its_call(alice: User) -> None:
    run = agent_run(2)
    first = next(position for position, message in enumerate(run) if message["role"] == "assistant")
    alice.api("render", session="run", messages=run[:first])
    alice.api("sync", session="run", messages=run)

    def status() -> tuple[int, str]:
        turn = alice.api.rows("timeline", "turns", session="run")[0]
        return turn["status"], turn["error"]

    assert status() == (0, "")
    usage = {"messages": first, "status": 200, "error": "server_error"}
    assert alice.api("record_usage", session="run", usage=usage)["recorded"]
    assert status() == (200, "server_error")


def test_changed_policy_does_not_change_recorded_calls(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another policy acts as a later version of the recorded policy."""
    replies = render_calls(alice.api, "run", agent_run(12), budget=700)
    before = alice.api("explain", session="run", turn=9)
    assert before["recorded"] and before["warnings"] == []
    monkeypatch.setattr(policies, "POLICIES", {**POLICIES, "contextrender": POLICIES["relevance"]})
    after = alice.api("explain", session="run", turn=9)
    complete = [row["position"] for row in after["results"] if row["display"] == "complete"]
    assert complete == replies[8]["complete"]
    assert [after[name] for name in SIZES] == [before[name] for name in SIZES]
    (sentence,) = after["warnings"]
    assert "otherwise than when this call was made" in sentence
    assert any("when the call was made; today" in row["reason"] for row in after["results"])
    turns = alice.api("timeline", session="run")["turns"]
    assert turns[8]["recorded"]
    assert turns[8]["tokens_after"] == replies[8]["tokens_after"]
    assert not alice.api("explain", session="run", turn=9, budget=700)["recorded"]


def test_misses_equal_values_absent_from_prompts(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The misses are read from the recorded calls, without rendering again."""
    rendered = Mock(side_effect=render_call)
    monkeypatch.setattr("contextrender_bridge.engine.replay.branch_replay.render_call", rendered)
    run = make_run(60, 5)
    replies = render_calls(alice.api, "run", run, policy="contextrender_cache_aware", budget=1_500)
    prompts = {view["turn"]: build_prompt(run, view["plan"]) for view in replies}
    missed = {
        (miss["turn"], miss["position"], value)
        for page in alice.api.pages("misses", session="run")
        for miss in page["misses"]
        for value in miss["values"]
    }
    assert missed == slow_rules.misses(run, prompts) != set()
    rendered.assert_not_called()


def test_views_of_full_history_call_show_full_history(alice: User) -> None:
    run = agent_run(12, lines=5)
    render_calls(alice.api, "whole", run, budget=700, delivery="holdout")
    render_calls(alice.api, "all", run, budget=90_000)
    views = [alice.api("get_call", session=name, turn=9) for name in ("whole", "all")]
    full_view, rendered_view = (view["explain"] for view in views)
    for name in (*SIZES, "text_tokens", "complete", "substitutes", "dropped_turns", "warnings"):
        assert full_view[name] == rendered_view[name]
    assert {row["display"] for row in full_view["results"]} == {"complete"}
    assert any("rendered, it would be omitted" in row["reason"] for row in full_view["results"])
    assert views[0]["messages"] == views[1]["messages"]
    columns = [alice.api("savings", session=name)["columns"] for name in ("whole", "all")]
    for name in ("prompt", "full"):
        assert columns[0][name][:12] == columns[1][name][:12]


def test_call_resent_in_full_is_recorded_as_full(alice: User) -> None:
    """The report comes with the next call or alone; the next call's shared prefix follows it."""
    run = agent_run(12, lines=5)
    answers = [position for position, message in enumerate(run) if message["role"] == "assistant"]
    for name, budget in (("refused", 700), ("all", 90_000)):
        for number, answer in enumerate(answers):
            before = answers[number - 1] if number else 0
            usage = {"usage": {"messages": before, "delivery": "full"}} if before else {}
            if name == "refused" and number % 2 and usage:
                assert alice.api("record_usage", session=name, **usage)["recorded"]
                usage = {}
            alice.api("render", session=name, messages=run[:answer], budget=budget, **usage)
        alice.api("sync", session=name, messages=run)
    exports = [alice.api("export_session", session=name) for name in ("refused", "all")]
    for resent_call, full_call in zip(
        *(export["branches"][0]["calls"][:-1] for export in exports), strict=True
    ):
        assert resent_call["delivery"] == "full"
        assert (resent_call["tokens"], resent_call.get("shown")) == (
            full_call["tokens"],
            full_call.get("shown"),
        )


def test_explain_and_misses_give_the_same_reason(alice: User) -> None:
    """The reasons are compared on each branch."""
    run = make_run(60, 5)
    fields: Json = {"policy": "contextrender_cache_aware", "budget": 1_500}
    render_calls(alice.api, "run", run, **fields)
    other = [*run[:60], user("Something else: where is the first order?")]
    render_calls(alice.api, "run", [*other, *run[60:110]], **fields)
    reasons = set()
    for branch in (0, 1):
        misses: dict[int, list[Json]] = {}
        for page in alice.api.pages("misses", session="run", branch=branch):
            for miss in page["misses"]:
                misses.setdefault(miss["turn"], []).append(miss)
        assert misses
        for turn in alice.api("timeline", session="run", branch=branch)["turns"]:
            if not turn["recorded"]:
                continue
            call = alice.api("explain", session="run", branch=branch, turn=turn["turn"])
            rows = call["results"]
            numbers_by_kind = {"complete": turn["complete"], "excerpt": turn["substitutes"]}
            for kind, numbers in numbers_by_kind.items():
                assert [
                    number for number, row in enumerate(rows) if row["display"] == kind
                ] == numbers_in(numbers)
            for miss in misses.get(turn["turn"], ()):
                row = rows[miss["result"]]
                assert all(row[name] == miss[name] for name in MISS_FIELDS)
            reasons |= {re.sub(r"\d+", "N", row["reason"]) for row in rows}
    assert {"shown since call N", "dropped when the prompt was rebuilt at call N"} <= reasons


def test_call_has_the_price_of_its_model(alice: User) -> None:
    render_calls(alice.api, "s", agent_run(3), budget=700, model="own")
    assert alice.api("get_call", session="s")["price"] is None
    prices = ["own:input=2,cached=0.5,output=8"]
    price = alice.api("get_call", session="s", turn=1, prices=prices)["price"]
    millionths = {name: round(dollars * 1e6, 6) for name, dollars in price.items()}
    prompt = {"uncached": 2, "cache_read": 0.5, "cache_write": 2, "cache_write_1h": 4}
    assert millionths == prompt | {"output": 8, "per_call": 0}
    alice.api.refused("get_call", 422, "invalid_request", session="s", prices=["cheap"])

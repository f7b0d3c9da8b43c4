"""Request formats: kept items are unchanged, and no call or result is without its counterpart."""

import copy
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.fitting import dialect_of
from contextrender_bridge.dialects import DIALECTS, OBSERVATIONS, MessagePlan
from contextrender_bridge.dialects.message_plan import CallPairs
from contextrender_bridge.engine.text.transcript import check_messages
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.bodies import INTERNAL, MAKERS, STRANGE, bodies
from tests.support.strategies import BUDGETS, modest, render

pytestmark = pytest.mark.parametrize("dialect", DIALECTS)


def plan_of(messages: list[Json], budget: int) -> MessagePlan:
    rendered, _ = render(messages, budget)
    return MessagePlan(messages, rendered.items)


def ends(body: Json) -> tuple[list[str], list[str]]:
    calls: list[str] = []
    results: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                look(item)
        if not isinstance(value, dict):
            return
        kind = value.get("type")
        if value.get("role") == "tool":
            results.append(str(value.get("tool_call_id")))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            results.append(value["call_id"])
        elif kind == "tool_result":
            results.append(value["tool_use_id"])
        elif kind == "tool_use":
            calls.append(value["id"])
        elif kind in ("function_call", "custom_tool_call"):
            calls.append(value["call_id"])
        calls.extend(call["id"] for call in value.get("tool_calls") or ())
        if kind != "tool_result":
            look(value.get("content"))

    look(body.get("messages", body.get("input")))
    return calls, results


@given(data=st.data())
@modest
def test_full_history_plan_changes_nothing(dialect: str, data: st.DataObject) -> None:
    body = data.draw(bodies(dialect))
    before = copy.deepcopy(body)
    transcript = DIALECTS[dialect].read(body)
    check_messages(transcript.messages, 0)
    new_body = transcript.apply(MessagePlan.full_history(transcript.messages))
    key = MAKERS[dialect][1]
    assert new_body == before
    assert body == before
    assert all(a is b for a, b in zip(new_body[key], body[key], strict=True))


@given(data=st.data(), budget=BUDGETS)
@modest
def test_calls_and_results_stay_paired(dialect: str, data: st.DataObject, budget: int) -> None:
    body = data.draw(bodies(dialect, strange=False))
    transcript = DIALECTS[dialect].read(body)
    if not transcript.messages:
        return
    call_of_result = CallPairs(transcript.messages).call_of_result
    calls, results = ends(transcript.apply(plan_of(transcript.messages, budget)))
    calls_before, results_before = ends(body)
    stray_results = len(results_before) - (len(call_of_result) if dialect != "observations" else 0)
    stray_calls = len(calls_before) - (len(call_of_result) if dialect != "observations" else 0)
    assert len(calls) - stray_calls == len(results) - stray_results


@given(data=st.data(), budget=BUDGETS)
@modest
def test_unknown_items_are_kept(dialect: str, data: st.DataObject, budget: int) -> None:
    body = data.draw(bodies(dialect))
    transcript = DIALECTS[dialect].read(body)
    if not transcript.messages:
        return
    key = MAKERS[dialect][1]
    new_body = transcript.apply(plan_of(transcript.messages, budget))
    unknown = [item for item in body[key] if item in STRANGE[dialect] and is_unknown(dialect, item)]
    assert [
        item for item in new_body[key] if item in STRANGE[dialect] and is_unknown(dialect, item)
    ] == (unknown)
    volatile = [item for item in body[key] if item == {"role": "user", "content": INTERNAL}]
    assert new_body[key][len(new_body[key]) - len(volatile) :] == volatile
    assert {name: new_body[name] for name in new_body if name != key} == {
        name: body[name] for name in body if name != key
    }


def is_unknown(dialect: str, item: Any) -> bool:
    """Return whether the format does not know this unusual item."""
    return (
        not DIALECTS[dialect].read({MAKERS[dialect][1]: [item]}).messages
        and item != (STRANGE["responses"][0])
    )


@given(data=st.data(), budget=BUDGETS)
@modest
def test_incremental_read_equals_full_read(dialect: str, data: st.DataObject, budget: int) -> None:
    body = data.draw(bodies(dialect))
    key = MAKERS[dialect][1]
    assert DIALECTS[dialect].key == key
    begun = None
    for end in sorted(data.draw(st.sets(st.integers(0, len(body[key])), max_size=3))):
        begun = DIALECTS[dialect].read({**body, key: body[key][:end]}, begun)
        assert begun.call_pairs
    full_read, read_on = DIALECTS[dialect].read(body), DIALECTS[dialect].read(body, begun)
    assert read_on.messages == full_read.messages
    assert read_on.call_pairs.call_of_result == CallPairs(full_read.messages).call_of_result
    for plan in (plan_of(full_read.messages, budget), MessagePlan(full_read.messages, [])):
        assert read_on.apply(plan) == full_read.apply(plan)
    for result in read_on.call_pairs.call_of_result:
        assert read_on.result(result) == full_read.result(result)


@given(data=st.data())
@modest
def test_restored_result_has_its_call(dialect: str, data: st.DataObject) -> None:
    body = data.draw(bodies(dialect, strange=False))
    transcript = DIALECTS[dialect].read(body)
    call_of_result = CallPairs(transcript.messages).call_of_result
    plan = MessagePlan(transcript.messages, [])
    for result in call_of_result:
        transcript.result(result)
        assert plan.show_result(result)
    assert plan.omitted_results() == []
    assert sorted(ends(transcript.apply(plan))[0]) == sorted(ends(body)[0])


@given(data=st.data())
@modest
def test_text_observations_are_distinguished_from_tool_calls(
    dialect: str, data: st.DataObject
) -> None:
    body = data.draw(bodies(dialect, strange=False))
    is_observations = dialect_of("chat", body) is OBSERVATIONS
    results = any(m["role"] == "tool" for m in OBSERVATIONS.read(body).messages)
    assert is_observations == (dialect == "observations" and results)

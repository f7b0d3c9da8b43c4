"""Costs of tools, computed by hand."""

from dataclasses import replace

import pytest
from contextrender_bridge.base.prices import price_from
from contextrender_bridge.engine.replay.tool_costs import (
    FLOOD_TOKENS,
    ToolCost,
    advise_on_tools,
    sum_costs,
    tool_costs,
)

PRICE = price_from({"input": 2, "cached": 0.2, "written": 2.5, "output": 8})
MILLION = 1_000_000


def test_result_costs_one_write_and_a_read_per_later_call() -> None:
    results = [("look", MILLION, 1), ("look", 5_000, 4), ("see", MILLION, 3)]
    look, see, idle = tool_costs("one", results, {1}, {"see": 0, "idle": MILLION}, 4, PRICE)
    assert look.dollars == pytest.approx(2.5 + 2 * 0.2)  # calls 2, 3 and 4; the second has no call
    assert see.dollars == pytest.approx(2.5)
    assert (look.results, look.reused, look.unused_tokens) == (2, 1, MILLION)
    assert (look.largest, look.largest_turn, look.largest_session) == (MILLION, 1, "one")
    assert idle.declared_dollars == pytest.approx(2.5 + 3 * 0.2) and idle.results == 0
    # Only the unused result counts, because the result of 5,000 tokens was used.
    assert look.excess_tokens == MILLION - FLOOD_TOKENS
    assert look.excess_dollars == pytest.approx((2.5 + 2 * 0.2) * (1 - FLOOD_TOKENS / MILLION))


def test_dollars_are_none_without_a_price() -> None:
    (tool,) = tool_costs("one", [("look", 5, 1)], (), {"look": 7}, 3, None)
    assert tool.dollars is None and tool.declared_dollars is None


def test_advice_names_large_and_unused_tools() -> None:
    bash = ToolCost("bash", 3, 20_000, 1, 100, 15_000, 9_000, 7, "one", 1.0, 0.5, 3_000, 0.25)
    idle = ToolCost("idle", declared=300, declared_dollars=0.5)
    small = replace(bash, largest=10, largest_session="two", unused_tokens=0, excess_tokens=0)
    tools = sum_costs([[bash, idle], [small]])
    assert [(tool.name, tool.tokens, tool.cost) for tool in tools] == [
        ("bash", 40_000, 3.0),
        ("idle", 0, 0.5),
    ]
    flood, never = advise_on_tools(tools)
    assert "bash floods: 15,000 of its 40,000 tokens were never used, about $0.75" in flood
    assert "its largest result has 9,000 (`contextrender show one --turn 7`)" in flood
    assert '"Ask bash for at most 4,000 tokens at a time."' in flood
    assert flood.endswith("have saved 3,000 tokens that nothing used, about $0.5000.")
    assert never.startswith("Never called: idle; their declarations are 300 tokens")
    assert never.endswith("about $0.5000. Switch them off in the agent.")
    assert advise_on_tools([small]) == ["No tool floods, and every declared one was called."]
    assert advise_on_tools([replace(small, declared=0)]) == ["No tool floods."]
    used_bash = replace(bash, unused_tokens=500, excess_tokens=0)  # Its large result was used.
    assert advise_on_tools([used_bash, small])[0].startswith("No tool floods")
    unread = replace(small, name="mail", reused=0, tokens=70, dollars=0.5)
    (unused,) = advise_on_tools([small, unread])
    assert unused == "No answer used a result of mail: 70 tokens, about $0.5000."
    many = [ToolCost(f"{place}" * 99, declared=1) for place in range(5)]
    (sentence,) = advise_on_tools(many)
    assert " and 2 more; " in sentence and "$" not in sentence and len(sentence) < 260


def test_missing_prices_and_costs_are_left_out_of_sums() -> None:
    unpriced, priced = ToolCost("look", tokens=5), ToolCost("look", tokens=5, dollars=2.0)
    (tool,) = sum_costs([[unpriced], [priced], [unpriced]])
    assert (tool.tokens, tool.dollars, tool.declared_dollars) == (15, 2.0, None)

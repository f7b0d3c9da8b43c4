"""Costs of tools, computed by hand."""

import pytest
from contextrender_bridge.base.prices import price_from
from contextrender_bridge.cli.inspect.tools import advice, sum_tools
from contextrender_bridge.engine.replay.tool_costs import FLOOD_TOKENS, tool_costs

PRICE = price_from({"input": 2, "cached": 0.2, "written": 2.5, "output": 8})
MILLION = 1_000_000


def test_result_costs_one_write_and_a_read_per_later_call() -> None:
    results = [("look", MILLION, 1), ("look", 5_000, 4), ("see", MILLION, 3)]
    look, see, idle = tool_costs(results, {1}, {"see": 0, "idle": MILLION}, 4, PRICE)
    assert look.dollars == pytest.approx(2.5 + 2 * 0.2)  # calls 2, 3 and 4; the second has no call
    assert see.dollars == pytest.approx(2.5)
    assert (look.results, look.reused, look.unused_tokens) == (2, 1, MILLION)
    assert (look.largest, look.largest_turn) == (MILLION, 1)
    assert idle.declared_dollars == pytest.approx(2.5 + 3 * 0.2) and idle.results == 0
    # Only the unused result counts; the used one of 5,000 tokens was asked for.
    assert look.excess_tokens == MILLION - FLOOD_TOKENS
    assert look.excess_dollars == pytest.approx((2.5 + 2 * 0.2) * (1 - FLOOD_TOKENS / MILLION))


def test_dollars_are_none_without_a_price() -> None:
    (tool,) = tool_costs([("look", 5, 1)], (), {"look": 7}, 3, None)
    assert tool.dollars is None and tool.declared_dollars is None


def view(name: str, *tools: object) -> dict[str, object]:
    return {"session": {"session": name}, "tools": list(tools)}


def test_advice_names_large_and_unused_tools() -> None:
    fields = ("name", "results", "tokens", "reused", "declared", "unused_tokens", "largest")
    shared_fields = {"largest_turn": 7, "dollars": 1.0, "declared_dollars": 0.5}
    shared_fields |= {"excess_tokens": 3_000, "excess_dollars": 0.25}
    bash = (
        dict(zip(fields, ("bash", 3, 20_000, 1, 100, 15_000, 9_000), strict=True)) | shared_fields
    )
    idle = dict(zip(fields, ("idle", 0, 0, 0, 300, 0, 0), strict=True)) | shared_fields
    small = bash | {"largest": 10, "unused_tokens": 0}
    tool_sums = sum_tools([view("one", bash, idle), view("two", small)])
    assert tool_sums["sessions"] == 2 and tool_sums["tools"][0]["tokens"] == 40_000
    flood, never = advice(tool_sums)
    assert "bash floods: 15.0K of its 40.0K tokens were never used, about $0.75" in flood
    assert "contextrender show one --turn 7" in flood
    assert '"Ask bash for at most 4,000 tokens at a time."' in flood
    assert flood.endswith("have saved 6.0K tokens that nothing used, about $0.5000.")
    assert never.startswith("Never called: idle; their declarations are 300 tokens")
    assert advice(sum_tools([view("two", small)])) == [
        "No tool floods, and every declared one was called."
    ]
    undeclared = small | {"declared": 0}
    assert advice(sum_tools([view("two", undeclared)])) == ["No tool floods."]

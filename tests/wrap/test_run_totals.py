"""The closing line: the provider's usage and the cost of the full history."""

import pytest
from contextrender_bridge.base.prices import Prices
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.client.replies import ToolCost
from contextrender_bridge.wrap.closing_report import (
    DeclaredTools,
    closing_json,
    closing_line,
    declared_line,
)
from contextrender_bridge.wrap.run_totals import TotalsCollector

CLAUDE, GPT = "claude-sonnet-4-5", "gpt-5.1"


def collect_totals(*calls: tuple[int, int, Usage | None], pause: float = 10.0) -> TotalsCollector:
    """Return the totals of a session's calls, each with tokens before, tokens after and usage."""
    collector = TotalsCollector()
    for number, (before, after, usage) in enumerate(calls):
        fields = {"tokens-before": str(before), "tokens-after": str(after)}
        collector.add(("s",), fields, usage, now=1000 + number * pause)
    return collector


def test_full_history_cost_equals_cost_without_omission() -> None:
    collector = collect_totals(
        (900, 900, Usage(CLAUDE, 10, 0, 990, output=5)),
        (1900, 1900, Usage(CLAUDE, 10, 1000, 990, output=5)),
    )
    assert collector.totals.cost == collector.totals.full_history_cost > 0
    line = closing_line(collector.totals, "LINK", observing=False)
    assert "omitted (0%, because your history stayed under the budget)" in line
    assert (
        "wrap pays off for prompts from about 50,000 tokens on, and the longest had 2,000" in line
    )


def test_long_run_names_no_length_that_pays() -> None:
    line = closing_line(
        collect_totals((90_000, 20_000, Usage(CLAUDE, 20_000))).totals, "LINK", observing=False
    )
    assert "pays off" not in line


def test_full_history_cost_has_cached_prefix() -> None:
    price = Prices.of().of_model(CLAUDE)
    assert price is not None
    first = (10_000, 10_000, Usage(CLAUDE, 0, 0, 10_000))
    collector = collect_totals(first, (12_000, 5_000, Usage(CLAUDE, 0, 0, 5_000)))
    second = price.cache_read * 10_000 + price.cache_write * 2_000
    assert collector.totals.full_history_cost == pytest.approx(price.cache_write * 10_000 + second)
    assert closing_json(collector.totals, DeclaredTools(), "")["tokens_omitted"] == 7_000


def test_run_that_cost_more_is_marked() -> None:
    # Each prompt is a little smaller and never cached.
    less = (20_000, 19_000, Usage(CLAUDE, 0, 0, 19_000))
    collector = collect_totals((20_000, 20_000, Usage(CLAUDE, 0, 0, 20_000)), *[less] * 9)
    assert collector.totals.cost > 5 * collector.totals.full_history_cost / 2
    assert "MORE" in closing_line(collector.totals, "LINK", observing=False)


def test_full_history_is_uncached_after_cache_lifetime() -> None:
    price = Prices.of().of_model(CLAUDE)
    assert price is not None
    collector = collect_totals(*[(10_000, 9_000, Usage(CLAUDE, 0, 0, 9_000))] * 2, pause=1000)
    assert collector.totals.full_history_cost == pytest.approx(2 * price.cache_write * 10_000)


def test_missing_usage_and_price_are_named() -> None:
    collector = TotalsCollector()
    collector.add(("s",), {}, None)
    collector.add(("s",), {"fail-open": "late"}, Usage("nobody's", 5))
    line = closing_line(collector.totals, "LINK", observing=False)
    assert "1 without usage" in line and "no price is known for nobody's" in line
    assert "1 sent unchanged" in line and "$" not in line
    assert line.startswith("2 calls (1 not recorded, such as for a title);")


def test_unknown_model_uses_its_familys_price() -> None:
    collector = collect_totals((9, 9, Usage("claude-opus-4-99", 10**6)))
    line = closing_line(collector.totals, "link", observing=False)
    assert "it cost $5.00" in line
    assert "claude-opus-4-99 at the price of claude-opus-4-6" in line


def test_omitted_share_is_of_the_complete_prompt() -> None:
    call = (8_000, 2_000, Usage(GPT, 3_000))
    line = closing_line(collect_totals(call).totals, "link", observing=False)
    assert "6,000 of 9,000 prompt tokens omitted (67%)" in line
    collector = collect_totals(call, (1_000, 500, None))
    assert (collector.totals.tokens_before, collector.totals.tokens_after) == (10_000, 3_500)


def test_unused_tool_declarations_are_named() -> None:
    rows = [("read", 2, 900), ("fly", 0, 10_000), ("contextrender_recall", 0, 80), ("old", 1, 0)]
    views = [tool(name, results, declared) for name, results, declared in rows]
    line = declared_line(DeclaredTools.of_tools(views))
    assert line == (
        "the declarations of its 2 tools take about 10,900 tokens of every request; "
        "1 was never called (10,000 tokens)"
    )
    assert not DeclaredTools.of_tools(views[:1]).never_called


def tool(name: str, results: int, declared: int) -> ToolCost:
    return ToolCost(
        name=name,
        results=results,
        tokens=5,
        reused=0,
        declared=declared,
        unused_tokens=0,
        largest=0,
        largest_turn=0,
        largest_session="",
        dollars=None,
        declared_dollars=None,
        excess_tokens=0,
        excess_dollars=None,
    )

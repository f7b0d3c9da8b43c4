"""A session compared under other settings: totals, timeline and misses agree."""

from importlib import import_module
from unittest.mock import Mock

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.replay.replayed_calls import SELECTION_EVERY

from tests.api.client import Api
from tests.console.transcripts import make_run
from tests.support.transcripts import agent_run, render_calls

RUN = agent_run(30)


def miss_count(view: list[dict[str, object]]) -> int:
    return sum(not miss["names_only"] for miss in view)


def test_totals_timeline_and_misses_agree(api: Api) -> None:
    render_calls(api, "s", RUN, budget=700)
    compared = api.complete("compare_policies", session="s", budgets=[500, 700])
    current = compared["options"][compared["current_option"]]
    assert (current["policy"], current["budget"]) == ("contextrender", 700)
    assert api.complete("savings", session="s")["totals"] == current
    for option in compared["options"]:
        setting = {"policy": option["policy"], "budget": option["budget"]}
        recorded = {} if option == current else setting
        turns = api.rows("timeline", "turns", session="s", **recorded)
        steps = [turn for turn in turns if turn["uses"] or turn["misses"]]
        assert option["steps"] == len(steps) > 0
        assert option["steps_with_misses"] == sum(bool(turn["misses"]) for turn in steps)
        assert option["misses"] == sum(len(turn["misses"]) for turn in steps)
        assert option["misses"] == miss_count(api.rows("misses", "misses", session="s", **recorded))
    assert any(option["misses"] for option in compared["options"])


def test_default_comparison_includes_recommended_settings(api: Api) -> None:
    render_calls(api, "s", RUN, budget=700)
    view = api.complete("compare_policies", session="s")
    names = {(option["policy"], option["budget"]) for option in view["options"]}
    assert {("contextrender", 700), ("contextrender_cache_aware", "auto"), ("full", 700)} <= names
    assert view["summary"] and view["current_option"] == 0


def test_policies_are_compared_on_the_same_calls_with_prices(api: Api) -> None:
    render_calls(api, "s", make_run(30), budget=700)
    options = api.complete("compare_policies", session="s")["options"]
    assert (options[-1]["policy"], options[-1]["recall"]) == ("full", 1.0)
    assert {option["full"] for option in options} == {options[-1]["prompt"]}
    totals = api.complete("savings", session="s")["totals"]
    assert totals["cost"] == options[0]["cost"] is None
    assert totals["calls_without_price"] == totals["turns"]
    prices = ["*:input=2,cached=0.5,output=8"]
    options = api.complete("compare_policies", session="s", prices=prices)["options"]
    totals = api.complete("savings", session="s", prices=prices)["totals"]
    assert totals["cost"] == pytest.approx(options[0]["cost"])
    assert totals["full_cost"] == pytest.approx(options[-1]["cost"])


def test_unknown_setting_is_refused(api: Api) -> None:
    render_calls(api, "s", RUN[:4])
    for walker in ("timeline", "misses"):
        api.refused(walker, 422, "invalid_request", session="s", policy="nothing")
        api.refused(walker, 422, "invalid_request", session="s", budget=1)


@pytest.mark.parametrize("recorded", [True, False])
def test_call_under_other_setting_starts_from_replay(
    api: Api, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    """The call reuses the timeline's replay and shows the same prompts."""
    run, policy = agent_run(120, lines=4), "contextrender_cache_aware"
    if recorded:
        render_calls(api, "s", run, budget=2000, policy=policy)
    else:
        api("sync", session="s", messages=run, settings={"budget": 900, "policy": policy})
    setting: Json = {"budget": 900, "policy": policy} if recorded else {}
    earlier = api("explain", session="s", turn=70, **setting)
    turns = api.rows("timeline", "turns", session="s", **setting)
    module = import_module(f"contextrender_bridge.engine.policies.{policy}")
    steps = Mock(side_effect=module.step)
    monkeypatch.setattr(module, "step", steps)
    for turn in (120, 3, 70, 121):
        explained = api("explain", session="s", turn=turn, **setting)
        for name in ("complete", "substitutes", "tokens_after"):
            assert explained[name] == turns[turn - 1][name]
        if turn == 70:
            assert explained == earlier
    assert steps.call_count < 2 * SELECTION_EVERY

"""A rendered prompt is within the budget, has no orphans, and follows the requested policy."""

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.policies import POLICIES

from tests.api.checks import build_prompt, orphans, tokens_inside
from tests.api.client import Api
from tests.support.transcripts import UNUSUAL, agent_run, assistant, call, user

RUN = agent_run(14, lines=5)
MIXED = [*UNUSUAL, *RUN[1:], assistant(None, call("late", "wait")), user("Still there?")]
BUDGETS = [64, 1200]


def test_history_within_budget_is_unchanged(api: Api) -> None:
    reply = api("render", session="s", messages=RUN, budget=50_000)
    assert reply["messages"] == RUN
    assert reply["tokens_before"] == reply["tokens_after"] == tokens_inside(RUN)
    assert reply["omitted"] == reply["substitutes"] == reply["warnings"] == []


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("budget", BUDGETS)
def test_plan_builds_the_same_messages(api: Api, policy: str, budget: int) -> None:
    fields = {"session": "s", "messages": MIXED, "policy": policy, "budget": budget}
    complete_reply, plan = api("render", **fields), api("render", **fields, output="plan")
    assert plan["messages"] is None
    assert complete_reply["plan"] is None
    assert build_prompt(MIXED, plan["plan"]) == complete_reply["messages"]
    assert orphans(complete_reply["messages"]) == []
    assert tokens_inside(complete_reply["messages"]) == complete_reply["tokens_after"]
    assert policy == "full" or complete_reply["tokens_after"] <= budget
    assert plan | {"plan": None, "messages": complete_reply["messages"]} == complete_reply


def test_call_settings_override_session_settings(api: Api) -> None:
    fields: Json = {"budget": 900, "policy": "prune", "parameters": {"weight_reuse": 0.5}}
    api("sync", session="own", messages=RUN[:3], settings=fields)
    api("sync", session="own", messages=RUN, settings={"parameters": {"recency_decay": 0.1}})
    parameters = {"weight_reuse": 0.5, "recency_decay": 0.1}
    assert api("inspect_session", session="own")["settings"] == fields | {"parameters": parameters}

    def check(equal_settings: Json, **settings: object) -> None:
        reply = api("render", session="own", messages=RUN, **settings)
        assert reply == api("render", session="other", messages=RUN, **equal_settings) | {
            "session": "own"
        }

    check({"budget": 900, "policy": "prune"})
    check({"budget": 900, "parameters": parameters}, policy="contextrender")
    usual = {"weight_reuse": 1, "recency_decay": 0.3}
    check({"budget": 1200}, policy="contextrender", budget=1200, parameters=usual)
    reply = api("explain", session="own")
    assert (reply["policy"], reply["budget"]) == ("contextrender", 1200)
    api("sync", session="own", messages=[*RUN, assistant("Done.")])
    to_come = api("explain", session="own")
    assert (to_come["policy"], to_come["budget"]) == ("prune", 900)


def test_next_call_is_explained_with_settings_of_last_call(api: Api) -> None:
    settings = {"budget": 1200, "policy": "contextrender_cache_aware", "agent_defaults": True}
    api("render", session="own", messages=RUN, **settings)
    api("sync", session="own", messages=[*RUN, assistant("Done.")])
    to_come = api("explain", session="own")
    assert (to_come["policy"], to_come["budget"]) == ("contextrender_cache_aware", 1200)


BAD_SETTINGS: list[tuple[Json, str]] = [
    ({"budget": 63}, "budget must be at least 64"),
    ({"policy": "best"}, "there are contextrender, recency"),
    ({"parameters": {"weight": 1}}, "no parameter 'weight'; there are "),
    ({"parameters": {"weight_reuse": -1}}, "from 0 to 1000"),
    ({"parameters": {"weight_reuse": 10**400}}, "from 0 to 1000"),
    ({"parameters": {"weight_reuse": True}}, "must be a number"),
    ({"parameters": {"query_task_share": 1.1}}, "at most 1"),
]
WRONG_KINDS: list[Json] = [{"budget": "900"}, {"budget": 1.5}, {"policy": 1}, {"model": "x"}]


@pytest.mark.parametrize(("settings", "sentence"), BAD_SETTINGS)
def test_invalid_setting_is_refused_by_every_endpoint(
    api: Api, settings: Json, sentence: str
) -> None:
    api("sync", session="s", messages=RUN[:3])
    for walker, fields in (
        ("render", {"messages": RUN, **settings}),
        ("explain", settings),
        ("sync", {"messages": RUN, "settings": settings}),
    ):
        error = api.refused(walker, 422, "invalid_request", session="s", **fields)
        assert sentence in error["message"]
    for wrong in WRONG_KINDS:
        api.refused("sync", 422, "invalid_request", session="s", messages=RUN, settings=wrong)
    reply = api("inspect_session", session="s")
    assert (reply["session"]["messages"], reply["settings"]) == (3, {})


@pytest.mark.parametrize(("model", "counted_as"), [("azure/gpt-4", "gpt-4"), ("llama", None)])
def test_tokens_are_counted_for_first_model(api: Api, model: str, counted_as: str | None) -> None:
    run = [*RUN, assistant("订单已延迟。"), user("なぜ？")]
    api("sync", session="s", messages=run[:2], model=model)
    reply = api("render", session="s", messages=run, model="gpt-4o-mini", budget=700)
    assert reply["tokens_before"] == tokens_inside(run, counted_as)
    assert reply["tokens_after"] == tokens_inside(reply["messages"], counted_as)
    differs = tokens_inside(run, counted_as) != tokens_inside(run)
    assert differs == (counted_as is not None)

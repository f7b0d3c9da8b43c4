"""`recommend` for stored sessions equals `recommend` for a file with the same messages and stores
nothing.
"""

from functools import partial
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.models.embeddings import NoEmbedder
from contextrender_bridge.evaluation.advice import (
    SessionReplays,
    first_calls,
    for_agents,
    recommend,
    recommend_for_session,
    session_cases,
)
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.runs import Run

from tests.api.client import Api
from tests.support.transcripts import agent_run, user

RUN = agent_run(20, lines=60)


def test_recommendation_equals_that_for_its_messages(api: Api) -> None:
    api("sync", session="s", messages=RUN)
    before = api("export_session", session="s")
    report = api("recommend", session="s")
    reply = recommend_for_session(RUN).to_json()
    assert report["summary"] == reply["sentence"]
    assert report["rule"] == reply["rule"] == "openai"
    assert [option["cost"] for option in report["options"]] == [
        option["cost"]["value"] for option in reply["options"]
    ]
    assert len(report["options"]) == 5
    assert report["calls"] == report["turn_count"] == sum(m["role"] == "assistant" for m in RUN)
    assert api("export_session", session="s") == before


def test_recommendation_uses_only_requested_calls(api: Api) -> None:
    api("sync", session="s", messages=RUN)
    report = api("recommend", session="s", calls=3)
    messages, last = first_calls(RUN, 3)
    assert (report["calls"], report["turn_count"]) == (3, last)
    assert report["summary"] == recommend_for_session(messages).sentence
    assert "Do not use it for such runs" in report["summary"]


def test_recommendation_compares_requested_policies_and_budgets(api: Api) -> None:
    api("sync", session="s", messages=RUN)
    policies, budgets = ["prune", "contextrender"], [3000, 96000]
    report = api("recommend", session="s", calls=20, policies=policies, budgets=budgets)
    compared = [(option["policy"], option["budget"]) for option in report["options"]]
    assert compared == [(policy, budget) for policy in policies for budget in budgets]


CALLS = 8
RUNS = {"one": agent_run(10, lines=40), "two": agent_run(6, lines=40)}


def read(messages: list[Json]) -> tuple[list[Json], list[float]]:
    return messages, []


def request_until_complete(api: Api, **fields: Any) -> list[Json]:
    replies = [api("recommend_all", **fields)]
    while not replies[-1]["complete"]:
        replies.append(api("recommend_all", **fields))
        assert len(replies) < 100
    return replies


def test_recommend_all_equals_recommendation_for_a_file(api: Api) -> None:
    reply = api("recommend_all")
    assert (reply["complete"], reply["sessions"], reply["best"]) == (True, 0, None)
    for name, messages in RUNS.items():
        api("sync", session=name, messages=messages)
    api("sync", session="no call yet", messages=[user("Hello?")])
    *_, final_reply = request_until_complete(api, calls=CALLS)
    runs = [
        Run(name, "", "", [dict(message) for message in first_calls(messages, CALLS)[0]])
        for name, messages in reversed(RUNS.items())
    ]
    cases = for_agents(session_cases())
    scores = [replay_run(run, cases, NoEmbedder(), closed_loop=True) for run in runs]
    expected_recommendation = recommend(runs, cases, lambda _runs, _cases: scores)
    assert final_reply["summary"] == expected_recommendation.sentence
    for option, expected in zip(
        final_reply["options"], expected_recommendation.options, strict=True
    ):
        # The session has timestamps and the file has none; no cache expires within a test.
        assert option["miss_rate"] == expected.miss_rate.value
        assert option["cost"] == pytest.approx(expected.cost.value)
    assert (final_reply["sessions"], final_reply["replayed_sessions"]) == (2, 2)
    assert (final_reply["calls"], final_reply["replayed_calls"]) == (CALLS, CALLS + 6)


def test_next_request_continues_after_time_limit() -> None:
    """A fake clock gives each request time for one replay."""
    cases = session_cases(["prune"], [3000, 6000])
    replayed_counts = []
    for _ in range(4):
        is_over = iter([False, True, True, True])
        replays = SessionReplays(cases, CALLS, NoEmbedder(), is_over.__next__)
        for name, messages in RUNS.items():
            replays.add(("a clock of its own", name), name, "", partial(read, messages))
        replayed_counts.append(len(replays.scores))
        assert replays.sessions == 2
    assert replayed_counts == [0, 1, 1, 2]
    assert replays.verdict is not None


def test_grown_session_is_replayed_again(api: Api) -> None:
    run = RUNS["one"]
    api("sync", session="s", messages=first_calls(run, 5)[0])
    assert request_until_complete(api, calls=CALLS)[-1]["replayed_calls"] == 5
    api("sync", session="s", messages=run)
    assert request_until_complete(api, calls=CALLS)[-1]["replayed_calls"] == CALLS


def test_recommend_all_uses_newest_sessions_and_stores_nothing(api: Api) -> None:
    for name, messages in RUNS.items():
        api("sync", session=name, messages=messages)
    before = api("export_session", session="two")
    *_, reply = request_until_complete(api, sessions=1, calls=CALLS)
    assert (reply["sessions"], reply["replayed_calls"]) == (1, 6)
    assert api("export_session", session="two") == before

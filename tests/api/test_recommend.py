"""Advice on stored sessions is that of a file with their messages, and asking stores nothing."""

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


def test_a_stored_session_is_advised_on_as_its_messages_are(api: Api) -> None:
    api("sync", session="s", messages=RUN)
    before = api("export_session", session="s")
    report = api("recommend", session="s")
    told = recommend_for_session(RUN).to_json()
    assert report["summary"] == told["sentence"]
    assert report["rule"] == told["rule"] == "openai"
    assert [each["cost"] for each in report["options"]] == [
        each["cost"]["value"] for each in told["options"]
    ]
    assert len(report["options"]) == 5
    assert report["calls"] == report["turn_count"] == sum(m["role"] == "assistant" for m in RUN)
    assert api("export_session", session="s") == before


def test_only_the_first_calls_wanted_are_weighed(api: Api) -> None:
    api("sync", session="s", messages=RUN)
    report = api("recommend", session="s", calls=3)
    taken, last = first_calls(RUN, 3)
    assert (report["calls"], report["turn_count"]) == (3, last)
    assert report["summary"] == recommend_for_session(taken).sentence
    assert "Do not use it for such runs" in report["summary"]


def test_other_policies_and_budgets_can_be_weighed(api: Api) -> None:
    api("sync", session="s", messages=RUN)
    policies, budgets = ["prune", "contextrender"], [3000, 96000]
    report = api("recommend", session="s", calls=20, policies=policies, budgets=budgets)
    tried = [(each["policy"], each["budget"]) for each in report["options"]]
    assert tried == [(policy, budget) for policy in policies for budget in budgets]


CALLS = 8
RUNS = {"one": agent_run(10, lines=40), "two": agent_run(6, lines=40)}


def read(messages: list[Json]) -> tuple[list[Json], list[float]]:
    return messages, []


def until_complete(api: Api, **fields: Any) -> list[Json]:
    replies = [api("recommend_all", **fields)]
    while not replies[-1]["complete"]:
        replies.append(api("recommend_all", **fields))
        assert len(replies) < 100
    return replies


def test_it_is_the_advice_of_a_file_with_the_same_calls(api: Api) -> None:
    nothing = api("recommend_all")
    assert (nothing["complete"], nothing["sessions"], nothing["best"]) == (True, 0, None)
    for name, messages in RUNS.items():
        api("sync", session=name, messages=messages)
    api("sync", session="no call yet", messages=[user("Hello?")])
    *_, told = until_complete(api, calls=CALLS)
    runs = [
        Run(name, "", "", [dict(each) for each in first_calls(messages, CALLS)[0]])
        for name, messages in reversed(RUNS.items())
    ]
    cases = for_agents(session_cases())
    scores = [replay_run(run, cases, NoEmbedder(), closed_loop=True) for run in runs]
    wanted = recommend(runs, cases, lambda _runs, _cases: scores)
    assert told["summary"] == wanted.sentence
    for option, expected in zip(told["options"], wanted.options, strict=True):
        # Times of recording stand where the file has none: caches do not expire in a test.
        assert option["miss_rate"] == expected.miss_rate.value
        assert option["cost"] == pytest.approx(expected.cost.value)
    assert (told["sessions"], told["replayed_sessions"]) == (2, 2)
    assert (told["calls"], told["replayed_calls"]) == (CALLS, CALLS + 6)


def test_a_reply_stops_when_its_time_is_over_and_the_next_goes_on() -> None:
    """A clock of the test's own: each look has time for one replay."""
    cases = session_cases(["prune"], [3000, 6000])
    weighed = []
    for _ in range(4):
        over = iter([False, True, True, True])
        look = SessionReplays(cases, CALLS, NoEmbedder(), over.__next__)
        for name, messages in RUNS.items():
            look.add(("a clock of its own", name), name, "", partial(read, messages))
        weighed.append(len(look.scores))
        assert look.sessions == 2
    assert weighed == [0, 1, 1, 2]
    assert look.verdict is not None


def test_a_session_that_went_on_is_replayed_again_where_its_first_calls_are_more(api: Api) -> None:
    run = RUNS["one"]
    api("sync", session="s", messages=first_calls(run, 5)[0])
    assert until_complete(api, calls=CALLS)[-1]["replayed_calls"] == 5
    api("sync", session="s", messages=run)
    assert until_complete(api, calls=CALLS)[-1]["replayed_calls"] == CALLS


def test_the_newest_sessions_are_weighed_and_nothing_is_stored(api: Api) -> None:
    for name, messages in RUNS.items():
        api("sync", session=name, messages=messages)
    before = api("export_session", session="two")
    *_, told = until_complete(api, sessions=1, calls=CALLS)
    assert (told["sessions"], told["replayed_calls"]) == (1, 6)
    assert api("export_session", session="two") == before

"""Policies that need a model, over HTTP: summaries are nodes, made once and reused."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from contextrender_bridge.base.wire import Json

from graph.sessions.caches import WORKING_SET
from tests.api.checks import orphans, rebuilt, tokens_inside
from tests.api.client import Api
from tests.api.conftest import Service, User
from tests.api.servers import another
from tests.support.provider_double import ProviderDouble, chat_reply, failure, provided
from tests.support.transcripts import agent_run
from tests.support.waiting import until

MODEL = "openai/scripted-summariser"
POLICIES = ("compact", "recency_summary", "acon")
RUN = agent_run(12)
BUDGET = 900


def notes(number: int) -> Json:
    return {
        "files_read": [],
        "key_observations": ["Order ORD-1000 precedes ORD-1001.", f"Note {number}."],
        "commands_run": ["get_order ORD-1000"],
        "decisions": [],
        "unresolved_questions": ["Who told clerk_0@example.com?"],
    }


@pytest.fixture
def model() -> Iterator[ProviderDouble]:
    """A model that summarises, set up for the service in this process."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        number = len(double.requests)
        typed = "response_format" in body
        reply = chat_reply(notes(number) if typed else f"State: note {number}.")
        return 200, reply | {"usage": {"prompt_tokens": 50, "completion_tokens": 5}}

    with provided(answer, model=MODEL) as double:
        yield double


def summary(reply: Json) -> str:
    (only,) = reply["replaced"]
    assert only["kind"] == "summary"
    (shown,) = [m for m in reply["messages"] if m["content"] == only["text"]]
    assert shown["role"] == "tool"
    assert tokens_inside(reply["messages"]) == reply["tokens"]["after"] <= reply["budget"]
    assert orphans(reply["messages"]) == []
    return str(only["text"])


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_a_summary_is_made_once_and_survives_a_restart(
    alice: User, model: ProviderDouble, policy: str
) -> None:
    fields = {"session": policy, "messages": RUN, "budget": BUDGET, "policy": policy}
    first = alice.api.report("render", **fields)
    assert summary(first).startswith("[Summary made by a model of the ")
    assert first["usage"] == {"model_tokens_in": 50, "model_tokens_out": 5, "embedding_tokens": 0}
    assert len(model.requests) == 1
    sent = json.dumps(model.requests[0]["messages"])
    assert "verbatim" in sent
    assert "row 0: ORD-1000 moved via hub_0" in sent

    again = alice.api.report("render", **fields)
    assert again.pop("usage")["model_tokens_in"] == first.pop("usage")["model_tokens_in"] - 50 == 0
    assert again == first
    WORKING_SET.clear()
    assert alice.api("render", **fields) == again
    with (
        another(alice.data, model.environment(model=MODEL)) as server,
        server.api(alice.api.token) as other,
    ):
        assert other("render", **fields) == again
        plan = other("render", **fields, want="plan")["plan"]
    assert rebuilt(RUN, plan) == first["messages"]
    assert len(model.requests) == 1

    graph = alice.graph()
    ((node, last, _),) = graph.pairs("Covers")
    assert node.kind == "HistorySummary"
    assert node.fields["text"] in summary(first)
    assert last.fields["position"] == node.fields["covered"] - 1
    assert len(graph.pairs("HasSummaries")) == 1


def test_a_rewritten_past_has_summaries_of_its_own(api: Api, model: ProviderDouble) -> None:
    fields = {"session": "s", "budget": BUDGET, "policy": "compact"}
    first = api("render", messages=RUN, **fields)
    other = [*RUN[:-1], RUN[-1] | {"content": "order ORD-1008 is lost"}]
    second = api("render", messages=other, **fields)
    assert second["branch"] != first["branch"]
    assert summary(second) != summary(first)
    assert api("render", messages=RUN, **fields)["messages"] == first["messages"]
    assert len(model.requests) == 2


def test_a_failing_model_leaves_the_history_as_prune_does_and_warns(
    alice: User, model: ProviderDouble
) -> None:
    works, model.answer = model.answer, lambda _: failure(401)
    fields = {"session": "s", "messages": RUN, "budget": BUDGET}
    pruned = alice.api("render", **fields, policy="prune")
    reply = alice.api("render", **fields, policy="compact")
    assert reply["messages"] == pruned["messages"]
    (warning,) = reply["warnings"]
    assert "not summarised" in warning
    assert "ORD-1000" not in warning
    assert alice.graph().counts["HistorySummary"] == 0
    model.answer = works
    reply = alice.api("render", **fields, policy="compact")
    assert summary(reply)
    assert reply["warnings"] == []


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_model_it_is_refused_and_nothing_is_written(api: Api, policy: str) -> None:
    fields = {"session": "s", "messages": RUN, "policy": policy}
    error = api.refused("render", 422, "invalid_request", **fields)
    assert error["message"] == f"policy {policy} needs a model: set CONTEXTRENDER_MODEL"
    api.refused("inspect_session", 404, "not_found", session="s")
    api("render", session="s", messages=RUN)
    assert {view["policy"] for view in api("compare_policies", session="s")["policies"]}.isdisjoint(
        POLICIES
    )


def test_a_caller_that_does_not_wait_finds_the_summary_at_the_next_call(
    service: Service, alice: User, model: ProviderDouble
) -> None:
    works = model.answer
    asked, left = threading.Event(), threading.Event()

    def slow(body: dict[str, Any]) -> tuple[int, Any]:
        asked.set()
        assert left.wait(60)
        return works(body)

    model.answer = slow
    fields = {"session": "s", "messages": RUN, "budget": BUDGET, "policy": "compact"}
    hurried = httpx.Client(base_url=service.http.base_url, timeout=httpx.Timeout(60, read=0.3))
    with hurried, pytest.raises(httpx.ReadTimeout):
        Api(hurried, alice.api.token)("render", **fields)
    assert asked.wait(60)
    left.set()
    until(lambda: alice.graph().counts.get("HistorySummary"))
    reply = alice.api.report("render", **fields)
    assert summary(reply)
    assert reply["usage"]["model_tokens_in"] == 0
    assert len(model.requests) == 1


def test_summaries_go_with_their_session(service: Service, model: ProviderDouble) -> None:
    user = service.new_user()
    for policy in POLICIES:
        user.api("render", session="s", messages=RUN, budget=BUDGET, policy=policy)
    assert user.graph().counts["HistorySummary"] == 3
    user.api("delete_session", session="s")
    assert not user.graph().nodes

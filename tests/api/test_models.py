"""Policies that need a model, over HTTP: history summaries and result summaries are stored as
nodes, made once and reused. Without a model there is an excerpt.
"""

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.sessions.caches import WORKING_SET

from tests.api.checks import orphans, rebuilt, tokens_inside
from tests.api.client import Api
from tests.api.conftest import Service, User
from tests.server.servers import another_server
from tests.support.provider_double import ProviderDouble, chat_reply, failure, provider_of_process
from tests.support.transcripts import agent_run, assistant, call, result, user
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
    """Start a model that writes summaries for the service in this process."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        number = len(double.requests)
        typed = "response_format" in body
        reply = chat_reply(notes(number) if typed else f"State: note {number}.")
        return 200, reply | {"usage": {"prompt_tokens": 50, "completion_tokens": 5}}

    with provider_of_process(answer, model=MODEL) as double:
        yield double


def summary(reply: Json) -> str:
    only = only_substitute(reply)
    assert only["kind"] == "summary"
    (message,) = [m for m in reply["messages"] if m["content"] == only["text"]]
    assert message["role"] == "tool"
    return str(only["text"])


def only_substitute(reply: Json) -> Json:
    """Return the only substitute of a valid prompt."""
    assert tokens_inside(reply["messages"]) == reply["tokens_after"] <= reply["budget"]
    assert orphans(reply["messages"]) == []
    (only,) = reply["substitutes"]
    return dict(only)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_summary_is_written_once_and_reused(
    alice: User, model: ProviderDouble, policy: str
) -> None:
    fields = {"session": policy, "messages": RUN, "budget": BUDGET, "policy": policy}
    first = alice.api.report("render", **fields)
    assert summary(first).startswith("[Summary made by a model of the ")
    assert first["usage"] == {"model_tokens_in": 50, "model_tokens_out": 5, "embedding_tokens": 0}
    assert len(model.requests) == 1
    (prompt,) = model.prompts
    assert "verbatim" in prompt
    assert "row 0: ORD-1000 moved via hub_0" in prompt

    reply = alice.api.report("render", **fields)
    assert reply.pop("usage")["model_tokens_in"] == first.pop("usage")["model_tokens_in"] - 50 == 0
    assert reply == first
    WORKING_SET.clear()
    assert alice.api("render", **fields) == reply
    with (
        another_server(alice.data, model.environment(model=MODEL)) as server,
        server.api(alice.api.token) as other,
    ):
        assert other("render", **fields) == reply
        plan = other("render", **fields, output="plan")["plan"]
    assert rebuilt(RUN, plan) == first["messages"]
    assert len(model.requests) == 1

    graph = alice.graph()
    ((node, last, _),) = graph.pairs("Covers")
    assert node.fields["text"] in summary(first)
    assert last.fields["position"] == node.fields["covered"] - 1
    alice.api("delete_session", session=policy)
    assert not alice.graph().nodes


def test_rewritten_history_has_its_own_summary(api: Api, model: ProviderDouble) -> None:
    fields = {"session": "s", "budget": BUDGET, "policy": "compact"}
    first = api("render", messages=RUN, **fields)
    other = [*RUN[:-1], RUN[-1] | {"content": "order ORD-1008 is lost"}]
    second = api("render", messages=other, **fields)
    assert second["branch"] != first["branch"]
    assert summary(second) != summary(first)
    assert api("render", messages=RUN, **fields)["messages"] == first["messages"]
    assert len(model.requests) == 2


def test_failing_model_falls_back_to_prune_with_warning(alice: User, model: ProviderDouble) -> None:
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


def test_summary_policies_are_refused_without_model(api: Api) -> None:
    for policy in POLICIES:
        fields = {"session": "s", "messages": RUN, "policy": policy}
        error = api.refused("render", 422, "invalid_request", **fields)
        assert error["message"] == f"policy {policy} needs a model: set CONTEXTRENDER_MODEL"
    api.refused("inspect_session", 404, "not_found", session="s")
    api("render", session="s", messages=RUN)
    compared = api("compare_policies", session="s", budgets=[6000])["options"]
    assert {view["policy"] for view in compared}.isdisjoint(POLICIES)


def test_summary_is_stored_after_client_timeout(
    service: Service, alice: User, model: ProviderDouble
) -> None:
    works = model.answer
    is_asked, left = threading.Event(), threading.Event()

    def slow(body: dict[str, Any]) -> tuple[int, Any]:
        is_asked.set()
        assert left.wait(60)
        return works(body)

    model.answer = slow
    fields = {"session": "s", "messages": RUN, "budget": BUDGET, "policy": "compact"}
    hurried = httpx.Client(base_url=service.http.base_url, timeout=httpx.Timeout(60, read=0.3))
    with hurried, pytest.raises(httpx.ReadTimeout):
        Api(hurried, alice.api.token)("render", **fields)
    assert is_asked.wait(60)
    left.set()
    until(lambda: alice.graph().counts.get("HistorySummary"))
    reply = alice.api.report("render", **fields)
    assert summary(reply)
    assert reply["usage"]["model_tokens_in"] == 0
    assert len(model.requests) == 1


COMPACTOR = "openai/scripted-compactor"
LOG = "\n".join(f"{n:04} worker_{n % 7} heartbeat" for n in range(700))
LOG = LOG.replace("0343 worker_0 heartbeat", "0343 FATAL disk_full on node-88.internal")
OVERSIZED = [
    user("Why did the job fail?"),
    assistant(None, call("log", "read_log", '{"job": "nightly_7"}')),
    result("log", LOG),
    assistant("It says disk_full on node-88.internal.", call("df", "df", "{}")),
    result("df", "node-88.internal 100% used"),
]


@pytest.fixture
def compactor() -> Iterator[ProviderDouble]:
    """Start a model that writes result summaries for the service in this process."""
    reply = chat_reply({"notes": "Disk full.", "quotes": ["FATAL disk_full on node-88.internal"]})
    with provider_of_process(lambda _: (200, reply), model=COMPACTOR) as double:
        yield double


def log_substitute(reply: Json) -> Json:
    only = only_substitute(reply)
    assert only["position"] == 2
    assert 2 not in reply["complete"] + reply["omitted"]
    (message,) = [m for m in reply["messages"] if m.get("tool_call_id") == "log"]
    assert message == OVERSIZED[2] | {"content": only["text"]}
    return only


def test_large_result_is_excerpt_with_recall_hint_without_model(api: Api) -> None:
    excerpt = log_substitute(api("render", session="s", messages=OVERSIZED, budget=3000))
    assert excerpt["kind"] == "excerpt"
    header, *lines = excerpt["text"].splitlines()
    assert "recall result 2" in header
    assert str(counter_for(None).text(LOG) + 4) in header
    assert lines[0] == "0000 worker_0 heartbeat"
    assert lines[-1] == "0699 worker_6 heartbeat"
    assert "0343 FATAL disk_full on node-88.internal" in lines
    assert len([line for line in lines if "characters left out" in line]) == 2
    (recalled,) = api("recall", session="s", results=[2])["results"]
    assert recalled["message"] == OVERSIZED[2]


def test_result_summary_is_written_once_and_stored_as_node(
    alice: User, compactor: ProviderDouble
) -> None:
    fields = {"session": "s", "messages": OVERSIZED, "budget": 3000}
    first = alice.api("render", **fields)
    compaction = log_substitute(first)
    assert compaction["kind"] == "compaction"
    assert "recall result 2" in compaction["text"]
    assert compaction["text"].endswith("Disk full.\nFATAL disk_full on node-88.internal")
    assert len(compactor.requests) == 1

    ((node, original, _),) = alice.graph().pairs("StandsFor")
    assert node.kind == "ResultSummary"
    assert node.fields["text"] in compaction["text"]
    assert original.fields["text"] == LOG

    WORKING_SET.clear()
    assert alice.api("render", **fields) == first
    later = fields | {"messages": [*OVERSIZED, assistant("Clean up?"), user("Yes.")]}
    assert log_substitute(alice.api("render", **later)) == compaction
    assert len(compactor.requests) == 1
    assert alice.graph().counts["ResultSummary"] == 1
    alice.api("render", **later | {"budget": 4000})
    assert len(compactor.requests) == 2


def test_explain_shows_stored_result_summary_and_writes_none(
    alice: User, compactor: ProviderDouble
) -> None:
    alice.api("sync", session="s", messages=OVERSIZED)
    row = alice.api("explain", session="s", budget=3000)["results"][0]
    assert (row["position"], row["display"]) == (2, "excerpt")
    assert compactor.requests == []
    rendered = alice.api("render", session="s", messages=OVERSIZED, budget=3000)
    explained = alice.api("explain", session="s", budget=3000)
    assert explained["results"][0]["display"] == "compaction"
    assert explained["tokens_after"] == rendered["tokens_after"]
    assert len(compactor.requests) == 1


def test_failing_model_falls_back_to_excerpt_with_warning(
    alice: User, compactor: ProviderDouble
) -> None:
    works = compactor.answer
    compactor.answer = lambda _: failure(401)
    reply = alice.api("render", session="s", messages=OVERSIZED, budget=3000)
    assert log_substitute(reply)["kind"] == "excerpt"
    (warning,) = reply["warnings"]
    assert "result 2" in warning and "disk_full" not in warning
    assert alice.graph().counts["ResultSummary"] == 0
    compactor.answer = works
    reply = alice.api("render", session="s", messages=OVERSIZED, budget=3000)
    assert log_substitute(reply)["kind"] == "compaction"
    assert reply["warnings"] == []

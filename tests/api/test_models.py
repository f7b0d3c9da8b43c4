"""Result summaries over HTTP: they are stored as nodes, made once and reused. Without a model there
is an excerpt. The baselines that summarise the history are refused.
"""

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.evaluation.baselines import BASELINES
from contextrender_bridge.runtime.session_lease import WORKING_SET

from tests.api.checks import orphans, tokens_inside
from tests.api.client import Api
from tests.api.conftest import Service, User
from tests.server.servers import another_server
from tests.support.provider_double import ProviderDouble, chat_reply, failure, provider_of_process
from tests.support.transcripts import assistant, call, result, user
from tests.support.waiting import wait_until


def only_substitute(reply: Json) -> Json:
    """Return the only substitute of a valid prompt."""
    assert tokens_inside(reply["messages"]) == reply["tokens_after"] <= reply["budget"]
    assert orphans(reply["messages"]) == []
    (only,) = reply["substitutes"]
    return dict(only)


def test_baselines_with_history_summaries_are_refused(api: Api) -> None:
    for policy in BASELINES:
        fields = {"session": "s", "messages": OVERSIZED, "policy": policy}
        error = api.refused("render", 422, "invalid_request", **fields)
        assert "are baselines of `contextrender eval`" in error["message"]
        assert "contextrender_cache_aware" in error["message"]
    api.refused("inspect_session", 404, "not_found", session="s")


COMPACTOR = "openai/scripted-compactor"
LOG = "\n".join(f"{number:04} worker_{number % 7} heartbeat" for number in range(700))
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
    (message,) = [message for message in reply["messages"] if message.get("tool_call_id") == "log"]
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
    with (
        another_server(alice.data, compactor.environment(model=COMPACTOR)) as server,
        server.api(alice.api.token) as other,
    ):
        assert other("render", **fields) == first
    later = fields | {"messages": [*OVERSIZED, assistant("Clean up?"), user("Yes.")]}
    assert log_substitute(alice.api("render", **later)) == compaction
    assert len(compactor.requests) == 1
    assert alice.graph().counts["ResultSummary"] == 1
    alice.api("render", **later | {"budget": 4000})
    assert len(compactor.requests) == 2
    alice.api("delete_session", session="s")
    assert not alice.graph().nodes


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


def test_result_summary_is_stored_after_client_timeout(
    service: Service, alice: User, compactor: ProviderDouble
) -> None:
    works = compactor.answer
    is_asked, has_left = threading.Event(), threading.Event()

    def slow(body: dict[str, Any]) -> tuple[int, Any]:
        is_asked.set()
        assert has_left.wait(60)
        return works(body)

    compactor.answer = slow
    fields = {"session": "s", "messages": OVERSIZED, "budget": 3000}
    hurried = httpx.Client(base_url=service.http.base_url, timeout=httpx.Timeout(60, read=0.3))
    with hurried, pytest.raises(httpx.ReadTimeout):
        Api(hurried, alice.api.token)("render", **fields)
    assert is_asked.wait(60)
    has_left.set()
    wait_until(lambda: alice.graph().counts.get("ResultSummary"))
    reply = alice.api.report("render", **fields)
    assert log_substitute(reply)["kind"] == "compaction"
    assert reply["usage"]["model_tokens_in"] == 0
    assert len(compactor.requests) == 1

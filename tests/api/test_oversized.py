"""A result larger than the budget: an excerpt, or a model's compaction that is made once."""

from collections.abc import Iterator
from typing import Any

import pytest

from engine.text.tokens import counter_for
from graph.sessions.caches import WORKING_SET
from tests.api.checks import orphans, tokens_inside
from tests.api.client import Api
from tests.api.conftest import User
from tests.support.provider_double import ProviderDouble, chat_reply, failure, provided
from tests.support.transcripts import assistant, call, result, user

MODEL = "openai/scripted-compactor"
LOG = "\n".join(f"{n:04} worker_{n % 7} heartbeat" for n in range(700))
LOG = LOG.replace("0343 worker_0 heartbeat", "0343 FATAL disk_full on node-88.internal")
RUN = [
    user("Why did the job fail?"),
    assistant(None, call("log", "read_log", '{"job": "nightly_7"}')),
    result("log", LOG),
    assistant("It says disk_full on node-88.internal.", call("df", "df", "{}")),
    result("df", "node-88.internal 100% used"),
]


@pytest.fixture
def model() -> Iterator[ProviderDouble]:
    """A model that compacts, set up for the service in this process."""
    reply = chat_reply({"notes": "Disk full.", "quotes": ["FATAL disk_full on node-88.internal"]})
    with provided(lambda _: (200, reply), model=MODEL) as double:
        yield double


def replacement(reply: dict[str, Any]) -> dict[str, Any]:
    (only,) = reply["replaced"]
    assert only["position"] == 2
    assert 2 not in reply["visible"] + reply["omitted"]
    (shown,) = [m for m in reply["messages"] if m.get("tool_call_id") == "log"]
    assert shown == RUN[2] | {"content": only["text"]}
    assert tokens_inside(reply["messages"]) == reply["tokens"]["after"] <= reply["budget"]
    assert orphans(reply["messages"]) == []
    return dict(only)


def test_without_a_model_an_excerpt_stands_in_marked_with_what_to_recall(api: Api) -> None:
    excerpt = replacement(api("render", session="s", messages=RUN, budget=3000))
    assert excerpt["kind"] == "excerpt"
    header, *lines = excerpt["text"].splitlines()
    assert "recall result 2" in header
    assert str(counter_for(None).text(LOG) + 4) in header
    assert lines[0] == "0000 worker_0 heartbeat"
    assert lines[-1] == "0699 worker_6 heartbeat"
    assert "0343 FATAL disk_full on node-88.internal" in lines
    assert len([line for line in lines if "characters left out" in line]) == 2
    (recalled,) = api("recall", session="s", results=[2])["results"]
    assert recalled["message"] == RUN[2]


def test_a_model_compacts_once_and_the_text_is_a_node_of_its_own(
    alice: User, model: ProviderDouble
) -> None:
    fields = {"session": "s", "messages": RUN, "budget": 3000}
    first = alice.api("render", **fields)
    compaction = replacement(first)
    assert compaction["kind"] == "compaction"
    assert "recall result 2" in compaction["text"]
    assert compaction["text"].endswith("Disk full.\nFATAL disk_full on node-88.internal")
    assert len(model.requests) == 1

    ((node, original, _),) = alice.graph().pairs("StandsFor")
    assert node.kind == "Compaction"
    assert node.fields["text"] in compaction["text"]
    assert original.fields["text"] == LOG

    assert alice.api("render", **fields) == first
    WORKING_SET.clear()
    assert alice.api("render", **fields) == first
    assert len(model.requests) == 1
    assert alice.graph().counts["Compaction"] == 1
    (recalled,) = alice.api("recall", session="s", results=[2])["results"]
    assert recalled["message"] == RUN[2]


def test_later_calls_of_the_session_reuse_it(api: Api, model: ProviderDouble) -> None:
    first = replacement(api("render", session="s", messages=RUN, budget=3000))
    later = [*RUN, assistant("Clean up?"), user("Yes.")]
    assert replacement(api("render", session="s", messages=later, budget=3000)) == first
    assert len(model.requests) == 1
    api("render", session="s", messages=later, budget=4000)
    assert len(model.requests) == 2


def test_explain_tells_of_the_compaction_and_makes_none(alice: User, model: ProviderDouble) -> None:
    alice.api("sync", session="s", messages=RUN)
    row = alice.api("explain", session="s", budget=3000)["results"][0]
    assert (row["position"], row["shown"]) == (2, "excerpt")
    assert model.requests == []
    rendered = alice.api("render", session="s", messages=RUN, budget=3000)
    explained = alice.api("explain", session="s", budget=3000)
    assert explained["results"][0]["shown"] == "compaction"
    assert explained["tokens"] == rendered["tokens"]
    assert len(model.requests) == 1


def test_a_failing_model_leaves_an_excerpt_and_a_warning(
    alice: User, model: ProviderDouble
) -> None:
    works = model.answer
    model.answer = lambda _: failure(401)
    reply = alice.api("render", session="s", messages=RUN, budget=3000)
    assert replacement(reply)["kind"] == "excerpt"
    (warning,) = reply["warnings"]
    assert "result 2" in warning
    assert "disk_full" not in warning
    assert alice.graph().counts["Compaction"] == 0
    model.answer = works
    reply = alice.api("render", session="s", messages=RUN, budget=3000)
    assert replacement(reply)["kind"] == "compaction"
    assert reply["warnings"] == []

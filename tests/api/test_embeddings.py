"""Embeddings are stored with the results, renewed for another model, and optional."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.history.growable_arrays import decode_vectors
from contextrender_bridge.runtime.session_lease import WORKING_SET

from tests.api.client import Api
from tests.api.conftest import User
from tests.support.provider_double import ProviderDouble, embedding_reply, provider_of_process
from tests.support.transcripts import agent_run

RUN = agent_run(10, lines=5)
POSITIONS = [place for place, message in enumerate(RUN) if message["role"] == "tool"]
SCRIPTED = "openai/scripted-embedder"


@pytest.fixture
def embedding() -> Iterator[ProviderDouble]:
    """Start an embedding provider for the service in this process."""

    def answer(body: Json) -> tuple[int, Any]:
        axes = [1.0, 0.0, 0.0], [0.6, 0.8, 0.0]
        return 200, embedding_reply([axes[len(text) % 2] for text in body["input"]])

    with provider_of_process(answer) as double:
        yield double


def models(user: User) -> list[str]:
    return [node.fields["embedding_model"] for node in user.graph().of("ToolResult")]


def texts_sent(double: ProviderDouble) -> int:
    return sum(len(body["input"]) for body in double.requests)


def test_reply_has_embedding_tokens_of_the_call(api: Api) -> None:
    fields = {"session": "s", "messages": RUN}

    def embedding_tokens(budget: int) -> int:
        usage = api.report("render", **fields, budget=budget)["usage"]
        assert usage["model_tokens_in"] == usage["model_tokens_out"] == 0
        return int(usage["embedding_tokens"])

    assert embedding_tokens(50_000) == 0
    assert embedding_tokens(900) > 1000
    assert 0 < embedding_tokens(900) < 100, "the latest text"


def test_result_is_embedded_once(
    alice: User, embedding: ProviderDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_EMBED_MODEL", SCRIPTED)
    fields = {"session": "s", "messages": RUN, "budget": 900}
    first = alice.api("render", **fields)
    assert first["warnings"] == []
    text_count = texts_sent(embedding)
    assert text_count == len(POSITIONS) + 2, "the results, the first and the latest text"
    assert alice.api("render", **fields) == first
    assert texts_sent(embedding) == text_count + 1, "the latest text"
    WORKING_SET.clear()
    assert alice.api("render", **fields) == first
    assert texts_sent(embedding) == text_count + 3, "the first and the latest text"


def test_another_model_embeds_again_when_needed(
    alice: User, embedding: ProviderDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"session": "s", "messages": RUN, "budget": 900}
    offline = alice.api("render", **fields)
    monkeypatch.setenv("CTXGRAPH_EMBED_MODEL", SCRIPTED)
    alice.api("render", **fields | {"budget": 50_000})
    assert embedding.requests == []
    assert models(alice) == ["wordllama"] * len(POSITIONS)
    alice.api("render", **fields)
    assert models(alice) == [SCRIPTED] * len(POSITIONS)
    for node in alice.graph().of("ToolResult"):
        (vector,) = decode_vectors([node.fields["embedding"]])
        assert len(vector) == 3
        assert np.linalg.norm(vector) == pytest.approx(1)
    monkeypatch.delenv("CTXGRAPH_EMBED_MODEL")
    assert alice.api("render", **fields) == offline
    WORKING_SET.clear()
    assert alice.api("render", **fields) == offline
    assert models(alice) == ["wordllama"] * len(POSITIONS)


def test_relevance_is_0_when_provider_is_down(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "scripted")
    monkeypatch.setenv("CONTEXTRENDER_EMBED_MODEL", "openai/nobody-home")
    reply = alice.api("render", session="s", messages=RUN, budget=900)
    (warning,) = reply["warnings"]
    assert warning.startswith("relevance is 0")
    assert reply["complete"]
    assert set(models(alice)) == {""}
    explained = alice.api("explain", session="s", budget=900)
    assert {row["relevance"] for row in explained["results"]} == {0.0}
    assert explained["warnings"]
    results = alice.api("recall", session="s", query="clerk_3@example.com")["results"]
    assert "clerk_3" in results[0]["message"]["content"]


def test_embedder_can_be_turned_off(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXTRENDER_EMBED_MODEL", "none")
    assert alice.api("render", session="s", messages=RUN, budget=900)["warnings"] == []
    rows = alice.api("explain", session="s", budget=900)["results"]
    assert {row["relevance"] for row in rows} == {0.0}

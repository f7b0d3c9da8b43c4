"""Embedders keep one contract, the offline one is deterministic, and provider failures are
contained.
"""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from contextrender_bridge.engine.models import litellm_embedder
from contextrender_bridge.engine.models.embeddings import Embedder, load_embedder
from contextrender_bridge.engine.models.litellm_embedder import (
    CircuitBreaker,
    EmbeddingUnavailable,
    LiteLLMEmbedder,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.provider_double import (
    ProviderDouble,
    embedding_reply,
    failure,
    provider_of_process,
    reply_late,
)

MODEL = "openai/scripted-embedding"
OFFLINE = load_embedder("wordllama")


@pytest.fixture
def double() -> Iterator[ProviderDouble]:
    """Start a provider that embeds a text as (length, 1)."""
    with provider_of_process(lengths) as served:
        yield served


def lengths(body: dict[str, Any]) -> tuple[int, Any]:
    return 200, embedding_reply([[float(len(text)), 1.0] for text in body["input"]])


def embedder(**settings: Any) -> LiteLLMEmbedder:
    return LiteLLMEmbedder(MODEL, **{"pause": 0.01, **settings})


@pytest.mark.parametrize("name", ["wordllama", "none", MODEL])
def test_every_embedder_keeps_the_contract(name: str, double: ProviderDouble) -> None:
    subject: Embedder = load_embedder(name)
    assert subject.name == name
    assert subject is load_embedder(name)
    rows = subject.embed(["first text", "", "other"])
    assert rows.dtype == np.float32
    assert len(rows) == 3
    assert not rows[1].any()
    for row in rows[[0, 2]]:
        assert np.isclose(np.linalg.norm(row), 1 if row.size else 0, atol=1e-6)
    assert subject.embed([]).shape == (0, rows.shape[1])


@given(st.lists(st.text(max_size=300), max_size=6))
@settings(deadline=None, max_examples=20)
def test_embedding_is_identical_alone_and_in_a_batch(texts: list[str]) -> None:
    batch = OFFLINE.embed([*texts, "a much longer text " * 200])
    for text, row in zip(texts, batch, strict=False):
        assert OFFLINE.embed([text])[0].tobytes() == row.tobytes()


def test_batches_keep_row_order(double: ProviderDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litellm_embedder, "BATCH_TEXTS", 2)
    rows = embedder().embed(["a", " ", "bbb", "cc\ud800", "d" * 9])
    assert [len(request["input"]) for request in double.requests] == [2, 2]
    assert not rows[1].any()
    assert np.allclose(rows[:, 0] / np.where(rows[:, 1], rows[:, 1], 1), [1, 0, 3, 3, 9])


def test_text_is_cut_to_input_limit(
    double: ProviderDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(litellm_embedder, "DEFAULT_INPUT_LIMIT", 10)
    embedder().embed(["word " * 50])
    assert double.requests[0]["input"] == [("word" + " word" * 9)]


def test_transient_failure_is_retried(double: ProviderDouble) -> None:
    double.answer = lambda body: failure(503) if len(double.requests) < 3 else lengths(body)
    assert embedder().embed(["text"]).shape == (1, 2)
    assert len(double.requests) == 3


@pytest.mark.parametrize(("status", "requests"), [(500, 3), (429, 3), (401, 1), (404, 1), (400, 1)])
def test_failing_provider_is_unavailable(
    double: ProviderDouble, status: int, requests: int
) -> None:
    double.answer = lambda _: failure(status)
    with pytest.raises(EmbeddingUnavailable) as raised:
        embedder().embed(["secret contents"])
    assert len(double.requests) == requests
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "reply",
    [
        {"data": []},
        {"nothing": 1},
        embedding_reply([[1.0], [2.0]]),
        embedding_reply([[float("nan"), 1.0]]),
    ],
)
def test_invalid_reply_is_unavailable(double: ProviderDouble, reply: Any) -> None:
    double.answer = lambda _: (200, reply)
    with pytest.raises(EmbeddingUnavailable):
        embedder(retries=0).embed(["text"])


def test_refused_text_does_not_affect_others(double: ProviderDouble) -> None:
    double.answer = lambda body: failure(400) if "poison" in body["input"] else lengths(body)
    rows = embedder().embed(["abc", "poison", "de"])
    assert rows.any(axis=1).tolist() == [True, False, True]


def test_hanging_provider_costs_its_timeout_once(double: ProviderDouble) -> None:
    released = threading.Event()
    double.answer = lambda _: reply_late(released)
    subject = embedder(timeout=0.2, retries=0)
    with pytest.raises(EmbeddingUnavailable):
        subject.embed(["text"])
    for _ in range(50):
        with pytest.raises(EmbeddingUnavailable):
            subject.embed(["text"])
    assert len(double.requests) == 1
    released.set()


def test_circuit_breaker_allows_one_trial_after_cooldown() -> None:
    now = [0.0]
    breaker = CircuitBreaker(cooldown=30, clock=lambda: now[0])
    assert breaker.allow() and breaker.allow()
    breaker.fail()
    now[0] = 29.9
    assert not breaker.allow()
    now[0] = 30.0
    assert breaker.allow()
    assert not breaker.allow()
    breaker.succeed()
    assert breaker.allow() and breaker.allow()

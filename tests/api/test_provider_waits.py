"""While a call waits for a model or an embedder, other calls continue, also of the same session."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.models import embeddings
from contextrender_bridge.engine.models.litellm_embedder import LiteLLMEmbedder

from tests.api.conftest import User
from tests.api.test_models import OVERSIZED
from tests.support.provider_double import chat_reply, embedding_reply, provider_of_process
from tests.support.transcripts import agent_run, assistant, user

RUN = agent_run(10, lines=5)
EMBEDDER = "openai/scripted-embedder"
CALLS = 40
PATIENCE = 120.0
"""Seconds, far more than needed: a passing test never waits this long."""


class Gate:
    """A provider that answers only after `opened` is set."""

    def __init__(self) -> None:
        self.requests = threading.Semaphore(0)
        self.opened = threading.Event()
        self.texts = 0

    def answer(self, body: Json) -> tuple[int, Any]:
        self.requests.release()
        self.opened.wait(PATIENCE)
        if "input" not in body:
            quotes = ["FATAL disk_full on node-88.internal"]
            return 200, chat_reply({"notes": "Disk full.", "quotes": quotes})
        self.texts += len(body["input"])
        vectors = [[1.0, 0.0] if len(text) % 2 else [0.6, 0.8] for text in body["input"]]
        return 200, embedding_reply(vectors)

    def wait_for(self, questions: int) -> None:
        for _ in range(questions):
            assert self.requests.acquire(timeout=PATIENCE)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Start a blocked provider for the service in this process; open it at the end."""
    new_gate = Gate()
    with provider_of_process(new_gate.answer):
        patient = LiteLLMEmbedder(EMBEDDER, timeout=PATIENCE)
        monkeypatch.setitem(embeddings._embedders, EMBEDDER, patient)
        new_gate.opened.set()
        patient.embed(["The first call imports LiteLLM, which takes long."])
        new_gate.opened.clear()
        new_gate.requests, new_gate.texts = threading.Semaphore(0), 0
        yield new_gate
        new_gate.opened.set()


@pytest.mark.slow
def test_other_calls_continue_while_forty_calls_wait(
    alice: User, bob: User, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_EMBED_MODEL", EMBEDDER)
    runs = [[user(f"Look at cluster {number}."), *RUN] for number in range(CALLS)]
    fields: list[Json] = [
        {"session": f"w{number}", "messages": run, "budget": 900} for number, run in enumerate(runs)
    ]
    with ThreadPoolExecutor(CALLS) as threads:
        pending = [threads.submit(alice.api, "render", **field) for field in fields]
        try:
            gate.wait_for(Settings().provider_threads)
            own_fields = {"session": "own", "messages": RUN, "budget": 900}
            assert bob.api("render", **own_fields, policy="contextrender_cache_aware")["omitted"]
            listed = alice.api("list_sessions")["sessions"]
            assert len(listed) >= Settings().provider_threads
            begun = listed[0]["session"]
            longer = [*runs[int(begun[1:])], assistant("Seen.")]
            assert alice.api("sync", session=begun, messages=longer)["offset"] == len(longer)
            assert not any(future.done() for future in pending)
        finally:
            gate.opened.set()
        replies = [future.result() for future in pending]
    assert [reply["warnings"] for reply in replies] == [[]] * CALLS
    assert [alice.api("render", **field) for field in fields] == replies


def test_session_continues_while_model_summarizes(
    alice: User, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXTRENDER_MODEL", "openai/scripted-compactor")
    fields = {"session": "s", "messages": OVERSIZED, "budget": 3000}
    with ThreadPoolExecutor(1) as threads:
        pending = threads.submit(alice.api.report, "render", **fields)
        try:
            gate.wait_for(1)
            longer = [*OVERSIZED, assistant("Free some."), user("Yes.")]
            assert alice.api("sync", session="s", messages=longer)["offset"] == len(longer)
            assert not pending.done()
        finally:
            gate.opened.set()
        reply = pending.result()
    assert [replaced["kind"] for replaced in reply["substitutes"]] == ["compaction"]
    assert (reply["offset"], reply["usage"]["model_tokens_in"]) == (len(OVERSIZED), 1)
    repeated = alice.api.report("render", **fields)
    assert (repeated["substitutes"], repeated["usage"]["model_tokens_in"]) == (
        reply["substitutes"],
        0,
    )


def test_call_asks_embedder_and_model_once(
    alice: User, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call waits for the embedder, then for the model."""
    monkeypatch.setenv("CONTEXTRENDER_EMBED_MODEL", EMBEDDER)
    monkeypatch.setenv("CONTEXTRENDER_MODEL", "openai/scripted-compactor")
    gate.opened.set()
    reply = alice.api.report("render", session="s", messages=OVERSIZED, budget=3000)
    assert [replaced["kind"] for replaced in reply["substitutes"]] == ["compaction"]
    assert reply["usage"]["model_tokens_in"] == 1
    assert reply["usage"]["embedding_tokens"] > 1000
    results = sum(message["role"] == "tool" for message in OVERSIZED)
    assert gate.texts == results + 2, "the results, the first and the latest text"

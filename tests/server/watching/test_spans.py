"""OpenTelemetry spans of a service in this process, collected by the SDK's memory exporter."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from contextrender_bridge.base import spans
from contextrender_bridge.engine.models.litellm_embedder import (
    EmbeddingUnavailable,
    LiteLLMEmbedder,
)
from contextrender_bridge.engine.models.providers import litellm
from contextrender_bridge.server import build_app
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.api.test_models import OVERSIZED
from tests.server.servers import ServiceInProcess, ask, in_process, running_server
from tests.support.provider_double import chat_reply, provider_of_process
from tests.support.scripted_model import Model, Reply, chat, json_reply, serving
from tests.support.waiting import wait_until

CANARY = "CANARY_7731"
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    monkeypatch.setattr(spans, "_start_span", None)  # monkeypatch restores it
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans.use_opentelemetry(provider)
    return exporter


def post(service: ServiceInProcess, walker: str, **fields: Any) -> httpx.Response:
    trace = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    return ask(service.app, "POST", f"/walker/{walker}", service.token, json=fields, headers=trace)


def by_name(spans: tuple[ReadableSpan, ...], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


def test_request_walker_and_storage_spans_are_nested(
    tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    message = {"role": "user", "content": CANARY}
    with in_process(tmp_path / "data") as service:
        exporter.clear()
        assert post(service, "render", session=CANARY, messages=[message]).status_code == 200
        assert post(service, "explain", session="none", turn=7).status_code == 404
    spans = exporter.get_finished_spans()
    (request,), (walker,) = by_name(spans, "POST render"), by_name(spans, "walker render")
    (write,) = by_name(spans, "store write")
    assert by_name(spans, "store read")
    assert f"{request.context.trace_id:032x}" == TRACE
    assert walker.parent is not None and walker.parent.span_id == request.context.span_id
    assert write.parent is not None and write.parent.span_id == walker.context.span_id
    assert write.attributes == {"db.system.name": "sqlite"}
    (failed,) = by_name(spans, "walker explain")
    assert failed.attributes == {"error.type": "NotFound"}
    assert not failed.status.is_ok and not failed.events and failed.status.description is None
    assert CANARY not in "".join(span.to_json() for span in spans)


def test_render_span_has_token_counts(tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    fields = {"session": "s", "messages": OVERSIZED, "budget": 3000, "model": "gpt-4o"}
    with in_process(tmp_path / "data") as service:
        exporter.clear()
        reply = post(service, "render", **fields)
    view = reply.json()["reports"][0]
    (walker,) = by_name(exporter.get_finished_spans(), "walker render")
    unbudgeted = view["tokens_unbudgeted"]
    assert walker.attributes == {
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": view["tokens_after"] + unbudgeted,
        "contextrender.tokens_before": view["tokens_before"] + unbudgeted,
        "contextrender.budget": 3000,
        "contextrender.results_shown": len(view["complete"]),
        "contextrender.results_omitted": len(view["omitted"]),
        "contextrender.results_back": 0,
        "contextrender.missed_before": False,
    }


@pytest.mark.slow
def test_provider_span_has_model_and_no_contents(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM's call is a double."""

    def fail(**_: Any) -> None:
        raise ConnectionError(CANARY)

    monkeypatch.setattr(litellm(), "embedding", fail)
    with pytest.raises(EmbeddingUnavailable):
        LiteLLMEmbedder("text-embedding-3-small", retries=0).embed([CANARY])
    (span,) = exporter.get_finished_spans()
    attributes = {"gen_ai.request.model": "text-embedding-3-small", "error.type": "ConnectionError"}
    assert (span.name, span.attributes) == ("provider embedding", attributes)
    assert CANARY not in span.to_json()


@pytest.mark.slow
def test_completion_span_is_inside_request_span(
    tmp_path: Path, exporter: InMemorySpanExporter
) -> None:
    """The model is a double."""
    notes = {"notes": CANARY, "quotes": []}
    compactor = provider_of_process(
        lambda _: (200, chat_reply(notes)), model="openai/scripted-compactor"
    )
    with compactor as double, in_process(tmp_path / "data") as service:
        fields = {"session": "s", "messages": OVERSIZED, "budget": 3000}
        reply = post(service, "render", **fields)
    assert CANARY in reply.text
    spans = exporter.get_finished_spans()
    (request,) = by_name(spans, "POST render")
    completions = by_name(spans, "provider completion")
    assert len(completions) == len(double.requests) >= 1
    for completion in completions:
        assert (
            completion.parent is not None and completion.parent.span_id == request.context.span_id
        )
        assert completion.attributes == {"gen_ai.request.model": "openai/scripted-compactor"}
    # The walker ran until it had to wait, and again with the answer.
    assert len(by_name(spans, "walker render")) == 2
    assert CANARY not in "".join(span.to_json() for span in spans)


def test_proxy_span_has_provider_host_and_no_contents(
    tmp_path: Path, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider is a double; the service's HTTP is real."""
    model = Model()
    model.script = [json_reply(chat(CANARY))]
    with serving(model, lifespan="off") as url:
        monkeypatch.setenv("CONTEXTRENDER_UPSTREAM", f"{url}/{CANARY}")
        app = build_app(tmp_path / "data")
        token = app.state.service.accounts.local_token()
        with serving(app) as service:
            response = httpx.post(
                f"{service}/s/{CANARY}/v1/chat/completions",
                json={"model": "m", "messages": [{"role": "user", "content": CANARY}]},
                headers={"x-contextrender-token": token, "authorization": f"Bearer {CANARY}"},
                timeout=60,
            )
            assert response.json() == chat(CANARY)
    assert CANARY in model.requests[0].path
    spans = exporter.get_finished_spans()
    (request,) = by_name(spans, "POST s")
    (span,) = by_name(spans, "provider request")
    assert span.attributes == {"server.address": "127.0.0.1"}
    for child_span in (span, *by_name(spans, "walker render")):
        assert (
            child_span.parent is not None and child_span.parent.span_id == request.context.span_id
        )
    assert by_name(spans, "walker render")
    assert CANARY not in "".join(inner_span.to_json() for inner_span in spans)


@pytest.mark.slow
def test_setting_exports_spans_to_a_collector(tmp_path: Path) -> None:
    collector = Model()
    collector.answer = lambda _: Reply([b""])
    with serving(collector, lifespan="off") as url:
        environment = {
            "CONTEXTRENDER_OTEL": "on",
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }
        with running_server(tmp_path / "data", **environment) as server, server.api() as api:
            api("sync", session=CANARY, messages=[{"role": "user", "content": CANARY}])
            wait_until(
                lambda: any(b"walker sync" in request.body for request in collector.requests)
            )
    assert {request.path for request in collector.requests} == {"/v1/traces"}
    assert not any(CANARY.encode() in request.body for request in collector.requests)

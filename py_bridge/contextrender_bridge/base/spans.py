"""OpenTelemetry's spans, where they are wanted (`otel`, with the extra of that name); else nothing.

A span tells what was done and how it ended: names, counts and kinds of failure, never contents. An
exception is told by its type alone, since its message may quote.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_install

Attributes = Mapping[str, str | int | float | bool]
Start = Callable[[str, Attributes, str], AbstractContextManager[None]]

_NOTHING = nullcontext()
_start: Start | None = None


def span(
    name: str, headers: Iterable[tuple[bytes, bytes]] = (), **attributes: str | int
) -> AbstractContextManager[None]:
    """A span for the block, inside the one that this is done in, or else that a request's `headers`
    name (`traceparent`). Dots in attributes' names are written as two underscores.
    """
    if _start is None:
        return _NOTHING
    parent = next((value.decode("latin-1") for key, value in headers if key == b"traceparent"), "")
    return _start(name, _named(attributes), parent)


def tell(**attributes: str | int | bool) -> None:
    """Adds to the span that this is done in."""
    if _start is not None:
        trace: Any = importlib.import_module("opentelemetry.trace")
        trace.get_current_span().set_attributes(_named(attributes))


def _named(attributes: Attributes) -> Attributes:
    """Without what is not known."""
    return {key.replace("__", "."): value for key, value in attributes.items() if value != ""}


def use_opentelemetry(provider: Any = None) -> None:
    """From now on spans are made: by that provider, or one that exports as `OTEL_*` variables say.

    Raises CommandError where OpenTelemetry is not installed.
    """
    global _start
    try:
        _start = _starting(provider or _exporting())
    except ImportError:
        raise CommandError(f"otel needs {how_to_install('otel')}.") from None


def _starting(provider: Any) -> Start:
    trace: Any = importlib.import_module("opentelemetry.trace")
    propagation: Any = importlib.import_module("opentelemetry.trace.propagation.tracecontext")
    reader = propagation.TraceContextTextMapPropagator()
    tracer = provider.get_tracer("contextrender")

    @contextmanager
    def start(name: str, attributes: Attributes, parent: str) -> Iterator[None]:
        within = reader.extract({"traceparent": parent}) if parent else None
        with tracer.start_as_current_span(
            name,
            context=within,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as made:
            try:
                yield
            except BaseException as failure:
                made.set_attribute("error.type", type(failure).__name__)
                made.set_status(trace.StatusCode.ERROR)
                raise

    return start


def _exporting() -> Any:
    resources: Any = importlib.import_module("opentelemetry.sdk.resources")
    sdk: Any = importlib.import_module("opentelemetry.sdk.trace")
    export: Any = importlib.import_module("opentelemetry.sdk.trace.export")
    otlp: Any = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    # What OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say comes before this name.
    named = resources.Resource({"service.name": "contextrender"})
    provider = sdk.TracerProvider(resource=named.merge(resources.OTELResourceDetector().detect()))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider

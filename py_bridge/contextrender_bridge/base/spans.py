"""OpenTelemetry spans. They need the setting `otel` and the extra of the same name.

A span has names, counts and types of failures, never contents. An exception is recorded by its type
only, because its message may quote contents.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_install

Attributes = Mapping[str, str | int | float | bool]
StartSpan = Callable[[str, Attributes, str], AbstractContextManager[None]]
"""A function that starts a span. Its arguments are the span's name, its attributes, and the
`traceparent` of its parent (empty for the current span)."""

_NO_SPAN = nullcontext()
_start_span: StartSpan | None = None
"""None until `use_opentelemetry` is called."""


def span(
    name: str, headers: Iterable[tuple[bytes, bytes]] = (), **attributes: str | int
) -> AbstractContextManager[None]:
    """Return a context manager that records its block as a span.

    The span's parent is the one that the header `traceparent` names, if it is among `headers`, and
    otherwise the current span. Two underscores in an attribute's name stand for a dot. Without
    OpenTelemetry, the context manager does nothing.
    """
    if _start_span is None:
        return _NO_SPAN
    parent = next((value.decode("latin-1") for key, value in headers if key == b"traceparent"), "")
    return _start_span(name, _attribute_values(attributes), parent)


def set_span_attributes(**attributes: str | int | bool) -> None:
    """Add attributes to the current span."""
    if _start_span is not None:
        trace: Any = importlib.import_module("opentelemetry.trace")
        trace.get_current_span().set_attributes(_attribute_values(attributes))


def _attribute_values(attributes: Attributes) -> Attributes:
    """Return the attributes without empty ones, and with dots instead of `__` in their names."""
    return {key.replace("__", "."): value for key, value in attributes.items() if value != ""}


def use_opentelemetry(provider: Any = None) -> None:
    """Let `span` record spans from now on.

    Use `provider`, or one that exports as the `OTEL_*` variables say. Raise CommandError if
    OpenTelemetry is not installed.
    """
    global _start_span
    try:
        _start_span = _span_function(provider or _exporting_provider())
    except ImportError:
        raise CommandError(f"otel needs {how_to_install('otel')}.") from None


def _span_function(provider: Any) -> StartSpan:
    """Return a function that starts a span of this provider.

    A failed span records the type of the error, never its message.
    """
    # OpenTelemetry is an optional package, so it is imported only here.
    trace: Any = importlib.import_module("opentelemetry.trace")
    propagation: Any = importlib.import_module("opentelemetry.trace.propagation.tracecontext")
    reader = propagation.TraceContextTextMapPropagator()
    tracer = provider.get_tracer("contextrender")

    @contextmanager
    def start(name: str, attributes: Attributes, parent: str) -> Iterator[None]:
        """Run the block in a span. `parent` is a `traceparent` header, or empty."""
        parent_context = reader.extract({"traceparent": parent}) if parent else None
        with tracer.start_as_current_span(
            name,
            context=parent_context,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as current_span:
            try:
                yield
            except BaseException as failure:
                # OpenTelemetry itself would record the message, so this is switched off above.
                current_span.set_attribute("error.type", type(failure).__name__)
                current_span.set_status(trace.StatusCode.ERROR)
                raise

    return start


def _exporting_provider() -> Any:
    """Return a provider that sends spans to the OTLP endpoint of the `OTEL_*` variables."""
    resources: Any = importlib.import_module("opentelemetry.sdk.resources")
    sdk: Any = importlib.import_module("opentelemetry.sdk.trace")
    export: Any = importlib.import_module("opentelemetry.sdk.trace.export")
    otlp: Any = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    # OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME take precedence over this name.
    resource = resources.Resource({"service.name": "contextrender"})
    provider = sdk.TracerProvider(
        resource=resource.merge(resources.OTELResourceDetector().detect())
    )
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider

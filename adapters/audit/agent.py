"""A Pydantic AI agent whose spans are written to two files by OpenTelemetry's own exporters.

`python agent.py FOLDER MODEL` asks twice in one conversation. It writes OTLP's JSON to
`FOLDER/otlp.jsonl`, and one span per line, as the SDK's console exporter does, to
`FOLDER/console.jsonl`.
"""

import sys
from pathlib import Path

from opentelemetry.exporter.otlp.json.file.trace_exporter import FileSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings

FOLDER = Path(sys.argv[1])
LOOKED = (FOLDER / "looked.txt").read_text().split("\n\n")


def _line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}\n"


def main() -> None:
    """Run the agent. Each call of `look` returns the next text of `looked.txt`."""
    provider = TracerProvider()
    exporters = (
        FileSpanExporter(FOLDER / "otlp.jsonl"),
        ConsoleSpanExporter(out=(FOLDER / "console.jsonl").open("w"), formatter=_line),
    )
    for exporter in exporters:
        provider.add_span_processor(SimpleSpanProcessor(exporter))
    settings = InstrumentationSettings(tracer_provider=provider)
    agent = Agent(sys.argv[2], instructions="Look at the hosts.")
    agent.instrument = settings
    texts = iter(LOOKED)

    @agent.tool_plain
    def look(host: str) -> str:
        """Return a text about a host."""
        return next(texts)

    first = agent.run_sync("Look at two hosts.", conversation_id="hosts")
    second = agent.run_sync("And one more.", message_history=first.all_messages())
    print(second.output)
    provider.shutdown()


if __name__ == "__main__":
    main()

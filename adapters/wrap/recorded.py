"""What an agent itself has left of the hosts' task, as `contextrender audit` reads it."""

from collections.abc import Callable
from pathlib import Path

from contextrender_bridge.audit.recorded import Found

from adapters.testing import hosts


def check_recorded(read: Callable[[Path, Found], None], home: Path) -> None:
    """One run with every call, complete results in their order, and each call billed once."""
    found = Found()
    read(home, found)
    assert not found.counts["damaged lines"] and not found.counts["unknown lines"], found.counts
    (run,) = found.runs
    answered = [message for message in run.messages if message["role"] == "assistant"]
    assert len(answered) == len(hosts.steps())
    results = [str(message["content"]) for message in run.messages if message["role"] == "tool"]
    marked = [text for text in results if any(mark in text for mark in hosts.MARKS)]
    assert len(marked) == len(hosts.MARKS)
    assert all(mark in text for mark, text in zip(hosts.MARKS, marked, strict=True))
    called = [call["id"] for message in answered for call in message.get("tool_calls") or ()]
    assert [m["tool_call_id"] for m in run.messages if m["role"] == "tool"] == called
    assert run.billed >= len(answered)
    assert all((used.fresh, used.output) == (9 * used.calls, 4 * used.calls) for used in run.usage)
    assert all(run.times) and run.times == sorted(run.times)

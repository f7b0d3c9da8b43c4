"""Spans for GenAI as OpenTelemetry's own SDK and exporters write them, read by `audit`."""

from pathlib import Path

import pytest
from contextrender_bridge.audit.files import read_files
from contextrender_bridge.audit.recorded import Found

from adapters.conftest import Loopback
from adapters.testing.commands import run
from adapters.testing.installs import python_of
from adapters.testing.scripted import Call, Say, Script

LOOKED = ["host_0_X is fast.", "host_1_X is slow.", "host_2_X is fast."]
STEPS: list[Call | Say] = [
    Call("look", {"host": "host_0_X"}),
    Call("look", {"host": "host_1_X"}),
    Say("One is slow."),
    Call("look", {"host": "host_2_X"}),
    Say("It is not."),
]


@pytest.mark.parametrize("file", ["otlp.jsonl", "console.jsonl"])
def test_an_instrumented_agents_run(loopback: Loopback, tmp_path: Path, file: str) -> None:
    (tmp_path / "looked.txt").write_text("\n\n".join(LOOKED))
    Script(loopback.model, STEPS)
    program = Path(__file__).with_name("agent.py")
    done = run([python_of("audit"), program, tmp_path], loopback.environment(), tmp_path)
    assert done.stdout == "It is not.\n"
    found = Found()
    read_files(tmp_path / file, found)
    assert not found.counts["damaged lines"], found.counts
    (recorded,) = found.runs
    roles = [message["role"] for message in recorded.messages if message["role"] != "system"]
    turn = ["assistant", "tool"]
    assert roles == ["user", *turn, *turn, "assistant", "user", *turn, "assistant"]
    told = [message["content"] for message in recorded.messages if message["role"] == "tool"]
    assert told == LOOKED
    assert [used.model for used in recorded.usage] == ["m"] * len(STEPS)  # as the reply names it
    assert {(used.fresh, used.output) for used in recorded.usage} == {(9, 4)}

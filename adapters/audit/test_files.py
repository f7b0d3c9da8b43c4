"""Files of a real agent's calls, read by `audit`: spans written by OpenTelemetry's SDK, and
requests and replies of three APIs as a log in front of the provider has them.
"""

import json
from pathlib import Path

import pytest
from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.files import read_files
from contextrender_bridge.base.usage_reading import read_usage
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.contents import plain_text

from adapters.conftest import Loopback
from adapters.testing.commands import run
from adapters.testing.installs import python_of
from adapters.testing.scripted import Call, Say, Script
from tests.support.scripted_model import ModelRequest, Reply

LOOKED = ["host_0_X is fast.", "host_1_X is slow.", "host_2_X is fast."]
STEPS: list[Call | Say] = [
    Call("look", {"host": "host_0_X"}),
    Call("look", {"host": "host_1_X"}),
    Say("One is slow."),
    Call("look", {"host": "host_2_X"}),
    Say("It is not."),
]


TURN = ["assistant", "tool"]
APIS = {
    "openai-chat:gpt-5.1": "messages",
    "openai-responses:gpt-5.1": "input",
    "anthropic:claude-sonnet-5": "messages",
}


def run_agent(loopback: Loopback, folder: Path, model: str) -> None:
    """Let the agent answer both questions. Its spans are written to the folder."""
    (folder / "looked.txt").write_text("\n\n".join(LOOKED))
    program = Path(__file__).with_name("agent.py")
    variables = loopback.environment(
        ANTHROPIC_BASE_URL=loopback.model.url, ANTHROPIC_API_KEY="sk-none"
    )
    process = run([python_of("audit"), program, folder, model], variables, folder)
    assert process.stdout == "It is not.\n"


def check_read(file: Path, model: str) -> None:
    """Check that the file has one run with every result, and the usage of each call once."""
    audit = AuditInput()
    read_files(file, audit)
    assert not audit.counts["damaged lines"], audit.counts
    (run,) = audit.merge_copies().runs
    roles = [message["role"] for message in run.messages if message["role"] != "system"]
    # For a streamed reply the log has only the usage.
    last = [] if model.startswith("claude") else ["assistant"]
    assert roles == ["user", *TURN, *TURN, "assistant", "user", *TURN, *last]
    result_texts = [plain_text(m["content"]) for m in run.messages if m["role"] == "tool"]
    assert result_texts == LOOKED
    assert [usage.model for usage in run.usage] == [model] * len(STEPS)
    assert {(usage.uncached, usage.output) for usage in run.usage} == {(9, 4)}


def logged_reply(reply: Reply) -> Json:
    """Return the reply, or the usage of a streamed reply."""
    body = b"".join(reply.chunks)
    usage = read_usage("text/event-stream", body) if body.startswith(b"event:") else None
    if usage is None:
        reply_body: Json = json.loads(body)
        return reply_body
    return {"usage": {"input_tokens": usage.uncached, "output_tokens": usage.output}}


@pytest.mark.parametrize("file", ["otlp.jsonl", "console.jsonl"])
def test_spans_of_instrumented_agent_are_read(
    loopback: Loopback, tmp_path: Path, file: str
) -> None:
    Script(loopback.model, STEPS)
    run_agent(loopback, tmp_path, "openai-chat:gpt-5.1")
    check_read(tmp_path / file, "m")  # the model's name in the reply


@pytest.mark.parametrize("model", APIS)
def test_log_of_requests_is_read(loopback: Loopback, tmp_path: Path, model: str) -> None:
    script, log = Script(loopback.model, STEPS), tmp_path / "log.jsonl"

    def answer(request: ModelRequest) -> Reply:
        reply = script.answer(request)
        with log.open("a") as lines:
            lines.write(
                json.dumps({"request": request.json, "response": logged_reply(reply)}) + "\n"
            )
        return reply

    loopback.model.answer = answer
    run_agent(loopback, tmp_path, model)
    assert all(APIS[model] in body for body in script.requests)
    check_read(log, model.partition(":")[2])

"""What a live agent always sees, in every dialect: its newest step, its task, loose results."""

import json
import re
import uuid
from typing import Any

import pytest

from engine.text.transcript import Json
from tests.dialects.bodies import chat_body, messages_body, responses_body
from tests.proxy.conftest import Setup
from tests.support.scripted_model import chat, response, said, whole

DIALECTS: dict[str, tuple[str, Any, Json]] = {
    "chat": ("/v1/chat/completions", chat_body, chat("Done.")),
    "messages": ("/v1/messages", messages_body, said([{"type": "text", "text": "Done."}])),
    "responses": ("/v1/responses", responses_body, response([])),
}
OURS = ["reuse_density", "contextrender_plus", "contextrender_frozen"]
POLICIES = [*OURS, "contextrender", "prune"]
TASK = "Write src/App_1.py so that the report of every host is in it."

in_every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def asked(id: str, name: str, text: str | None = None, **arguments: str) -> Json:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": id, "type": "function", "function": function}
    return {"role": "assistant", "content": text, "tool_calls": [call]}


def answered(id: str, text: str) -> Json:
    return {"role": "tool", "tool_call_id": id, "content": text}


def steps(count: int, text: str | None, rows: int) -> list[Json]:
    """A host looked at in each; `text` is what the agent says with every call."""
    made: list[Json] = []
    for n in range(count):
        report = "".join(f"host_{n}_Q row {row} is well.\n" for row in range(rows))
        spoken = text and f"note_{n}_P {text}"
        made += [asked(f"c{n}", "look", spoken, at=f"host_{n}_Q"), answered(f"c{n}", report)]
    return made


def sent(setup: Setup, dialect: str, messages: list[Json], **headers: Any) -> tuple[Json, Json]:
    """The body that the model was sent for this history, and the reply's headers."""
    path, body, reply = DIALECTS[dialect]
    setup.model.script = [whole(reply)]
    named = {f"x_contextrender_{name}": str(value) for name, value in headers.items()}
    got = setup.post(f"/s/{uuid.uuid4().hex}{path}", body(messages), **named)
    assert got.status_code == 200, got.text
    last: Json = setup.model.asked[-1].json
    return last, dict(got.headers)


def calls_of(body: Json) -> dict[str, Any]:
    """The arguments of every call that a body has, by id."""
    found = {}
    for item in body.get("messages") or body["input"]:
        content = item.get("content")
        for call in item.get("tool_calls") or ():
            found[call["id"]] = json.loads(call["function"]["arguments"])
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use":
                found[block["id"]] = block["input"]
        if item.get("type") == "function_call":
            found[item["call_id"]] = json.loads(item["arguments"])
    return found


def results_of(body: Json) -> dict[str, str]:
    """The text of every result that a body has, by the id of its call."""
    found = {}
    for item in body.get("messages") or body["input"]:
        content = item.get("content")
        if item.get("role") == "tool":
            found[item["tool_call_id"]] = _text(content)
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_result":
                found[block["tool_use_id"]] = _text(block["content"])
        if item.get("type") == "function_call_output":
            found[item["call_id"]] = _text(item["output"])
    return found


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@in_every_dialect
@pytest.mark.parametrize("policy", POLICIES)
def test_a_file_that_was_just_written_is_in_view_with_its_answer(
    setup: Setup, dialect: str, policy: str
) -> None:
    budget = 6_000
    text = " ".join(f"line_{n}" for n in range(1_700))
    user = {"role": "user", "content": TASK}
    write = [asked("w", "write", path="src/App_1.py", content=text), answered("w", "written")]
    history = [user, *steps(40, None, 60), *write]
    body, headers = sent(setup, dialect, history, policy=policy, budget=budget)
    assert results_of(body)["w"] == "written"
    written = calls_of(body)["w"]
    assert written["path"] == "src/App_1.py"
    assert written["content"].startswith("line_0 line_1 ")
    left_out = re.search(r"\[… \d+ characters left out …\]", written["content"])
    assert bool(left_out) == (written["content"] != text)
    assert set(calls_of(body)) == set(results_of(body))
    assert TASK in json.dumps(body)
    assert int(headers["x-contextrender-tokens-after"]) <= budget

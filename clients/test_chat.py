"""The TypeScript client reads and rewrites chat messages as the Python client does."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import DIALECTS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.testing.javascript import built_client, command
from tests.dialects.bodies import bodies
from tests.dialects.test_provider_model import ASK, Step, chat, steps
from tests.support.strategies import BUDGETS, render

PROGRAM = Path(__file__).parent / "chat.mjs"
many = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Other:
    """The TypeScript client in a separate process."""

    def __init__(self, dist: Path) -> None:
        words = [*command("node"), PROGRAM, dist]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **fields: Any) -> Json:
        """Send a request to the client and return its reply."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{json.dumps(fields)}\n")
        self._process.stdin.flush()
        answer: Json = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Other]:
    opened = Other(built_client(tmp_path_factory.mktemp("client")) / "dist")
    yield opened
    opened.close()


def plain(message: Json) -> Json:
    """Return a message without digests and spaces in JSON, which each client writes differently."""
    content = message.get("content")
    if isinstance(content, list):
        content = [
            {**part, **({"text": read(part["text"])} if "text" in part else {"digest": ""})}
            for part in content
        ]
    calls = [
        {**call, call["type"]: {key: read(text) for key, text in call[call["type"]].items()}}
        for call in message.get("tool_calls") or ()
    ]
    fields = {key: message[key] for key in ("role", "tool_call_id") if key in message}
    return as_sent({**fields, "content": read(content), "tool_calls": calls})


def read(text: Any) -> Any:
    """Return the value of a text that is JSON, otherwise the text."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def as_sent(value: Any) -> Any:
    """Return the value after a round trip through JSON."""
    return json.loads(json.dumps(value))


@given(body=bodies("chat"), budget=BUDGETS)
@many
def test_clients_agree_on_generated_requests(other: Other, body: Json, budget: int) -> None:
    transcript = DIALECTS["chat"].read(body)
    reply = other.ask(items=body["messages"])
    assert list(map(plain, reply["messages"])) == list(map(plain, transcript.messages))
    if not transcript.messages:
        return
    rendered, _ = render(transcript.messages, budget)
    rows = [
        {"message": item.message, "calls": list(item.calls), "text": item.text}
        for item in rendered.items
    ]
    new_body = transcript.apply(transcript.plan(rows))
    reply = other.ask(items=body["messages"], shown=rows)
    assert reply["left"] == as_sent(new_body["messages"])


@given(history=steps(), data=st.data())
@many
def test_clients_keep_steps_signed_alike(
    other: Other, history: list[Step], data: st.DataObject
) -> None:
    body: Json = {"messages": [ASK, *(item for step in history for item in chat(step, "own"))]}
    for message in body["messages"]:
        # OpenRouter's details, of which some name a call.
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        names = data.draw(st.lists(st.sampled_from([*ids, "other", None]), max_size=3))
        if ids and names:
            message["reasoning_details"] = [{"data": n, "id": id} for n, id in enumerate(names)]
    transcript = DIALECTS["chat"].read(body)
    pairs = transcript.call_pairs.call_of_result
    omitted = {result for result in pairs if data.draw(st.booleans())}
    rows: list[Json] = [
        {
            "message": place,
            "calls": sorted(
                n for result, (p, n) in pairs.items() if p == place and result not in omitted
            ),
            "text": None,
        }
        for place, message in enumerate(transcript.messages)
        if place not in omitted and (message["role"] != "assistant" or message["content"])
    ]
    planned = {entry["message"] for entry in rows}
    for result, (place, number) in pairs.items():
        if result not in omitted and place not in planned:
            rows.append({"message": place, "calls": [number], "text": ""})
    new_body = transcript.apply(transcript.plan(rows))
    reply = other.ask(items=body["messages"], shown=rows)
    assert reply["left"] == as_sent(new_body["messages"])

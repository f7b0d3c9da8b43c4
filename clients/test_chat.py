"""The TypeScript client reads and rewrites chat messages as the Python client does."""

import json
import subprocess
from collections.abc import Callable, Collection, Iterator
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
from tests.dialects.test_step_rules import CHANGES, chat_call, chat_step
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
    new_body = transcript.apply(transcript.plan(rendered.items))
    reply = other.ask(items=body["messages"], shown=rendered.items)
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
    omitted = {r for r in transcript.call_pairs.call_of_result if data.draw(st.booleans())}
    assert_same_prompt(other, body, omitted)


def assert_same_prompt(other: Other, body: Json, omitted: Collection[int]) -> None:
    """Check that both clients send the same prompt without these results."""
    transcript = DIALECTS["chat"].read(body)
    pairs = transcript.call_pairs.call_of_result
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


def older_api(item: Json) -> Json:
    if item["role"] == "tool":
        return {"role": "function", "name": "look", "content": item["content"]}
    body = item["tool_calls"][0]["function"]
    return {"role": "assistant", "content": item["content"], "function_call": body}


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("change", [*CHANGES.values(), older_api], ids=[*CHANGES, "older api"])
def test_clients_pair_calls_without_ids_alike(
    other: Other, change: Callable[[Json], Json], width: int
) -> None:
    steps = [chat_step([chat_call(f"{c}{n}") for c in "abc"[:width]]) for n in range(4)]
    body = {"messages": [ASK, *(change(item) for step in steps for item in step)]}
    transcript = DIALECTS["chat"].read(body)
    reply = other.ask(items=body["messages"])
    assert list(map(plain, reply["messages"])) == list(map(plain, transcript.messages))
    results = [*transcript.call_pairs.call_of_result]
    assert len(results) == (4 if change is older_api else 4 * width)
    for omitted in (results[:1], results[: 2 * width], results[1:2]):
        assert_same_prompt(other, body, omitted)


@given(body=bodies("chat"), data=st.data())
@many
def test_clients_pair_generated_calls_alike(other: Other, body: Json, data: st.DataObject) -> None:
    ids = st.sampled_from(["own", "", None, "a", "A"])
    for item in body["messages"]:
        fields = item if isinstance(item, dict) else {}
        holders = [(call, "id") for call in fields.get("tool_calls") or ()]
        holders += [(fields, "tool_call_id")] if fields.get("role") == "tool" else []
        for holder, name in holders:
            if (id := data.draw(ids)) != "own":
                holder[name] = id
    transcript = DIALECTS["chat"].read(body)
    reply = other.ask(items=body["messages"])
    assert list(map(plain, reply["messages"])) == list(map(plain, transcript.messages))
    results = transcript.call_pairs.call_of_result
    assert_same_prompt(other, body, [r for r in results if data.draw(st.booleans())])

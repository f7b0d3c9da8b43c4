"""The endpoints for gateways' compression guardrails."""

import re
import uuid
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import history_cache
from contextrender_bridge.proxy import app, model_calls

from tests.proxy.agents import ChatAgent, MessagesAgent, finding
from tests.proxy.conftest import Setup, Start
from tests.support.transcripts import assistant, system, user
from tests.support.waiting import wait_until


def history(setup: Setup, kind: Any = ChatAgent, turns: int = 9) -> list[Json]:
    items: list[Json] = kind(setup).add_turns(turns).items
    return items


def compress(setup: Setup, messages: Any, *, session: str = "", **fields: Any) -> Any:
    headers = {"x_contextrender_session": session} if session else {}
    body = {"messages": messages, "model": "gpt-4o", **fields}
    response = setup.post("/v1/compress", body, **headers)
    assert response.status_code == 200, response.text
    return response.json()


def retrieve_originals(setup: Setup, reply: Json) -> list[Json]:
    return [setup.http.get(f"/v1/retrieve/{id}").json() for id in reply["ccr_hashes"]]


@pytest.mark.parametrize("kind", [ChatAgent, MessagesAgent])
def test_messages_fit_and_omitted_results_are_retrievable(
    setup: Setup, start: Start, kind: Any
) -> None:
    messages = history(setup, kind)
    name = uuid.uuid4().hex
    reply = compress(setup, messages, session=name)
    assert reply["tokens_after"] < 1000 < reply["tokens_before"]
    assert reply["tokens_saved"] == reply["tokens_before"] - reply["tokens_after"]
    assert reply["compression_ratio"] == reply["tokens_after"] / reply["tokens_before"]
    assert [message["role"] for message in reply["messages"]] == [m["role"] for m in messages]
    changed_messages = [
        new for old, new in zip(messages, reply["messages"], strict=True) if old != new
    ]
    assert len(changed_messages) == len(reply["ccr_hashes"]) > 3
    assert all(
        id in str(message)
        for id, message in zip(reply["ccr_hashes"], changed_messages, strict=True)
    )
    assert reply["session"] == name
    originals = retrieve_originals(start(), reply)  # another proxy knows the ids
    assert finding(0) in [original["original_content"] for original in originals]
    assert {original["tool_name"] for original in originals} == {"look"}
    assert setup.model.requests == []


def test_another_proxy_knows_ids_from_their_reply_on(setup: Setup, start: Start) -> None:
    """The ids are in the store before the reply is sent. One reply may not show a race, so
    twelve are checked."""
    other, messages = start(), history(setup)
    for _ in range(12):
        first_id = compress(setup, messages, session=uuid.uuid4().hex)["ccr_hashes"][0]
        response = other.http.get(f"/v1/retrieve/{first_id}")
        assert response.status_code == 200, response.text


def test_results_without_calls_are_compressed(setup: Setup) -> None:
    messages = [message for message in history(setup) if message["role"] != "assistant"]
    reply = compress(setup, messages)
    assert len(reply["messages"]) == len(messages)
    assert finding(8) == reply["messages"][-1]["content"]
    assert finding(0) in [r["original_content"] for r in retrieve_originals(setup, reply)]


def test_excerpts_name_their_id(setup: Setup) -> None:
    messages = history(setup, turns=2)
    messages[3]["content"] = "a line of a result that is far too long\n" * 500
    reply = compress(setup, messages)
    (match,) = re.findall(r"hash=([0-9a-f]{24})", str(reply["messages"]))
    assert match in reply["ccr_hashes"]
    assert messages[3]["content"] in [
        retrieve_original["original_content"]
        for retrieve_original in retrieve_originals(setup, reply)
    ]


def test_messages_are_unchanged_when_service_is_down(start: Start) -> None:
    setup = start(url="http://127.0.0.1:9", token="t")
    messages = history(setup)
    reply = compress(setup, messages)
    assert (reply["messages"], reply["fail_open"]) == (messages, "unreachable")
    assert setup.http.get(f"/v1/retrieve/{'0' * 24}").status_code == 503


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/compress", b"{", 400),
        ("POST", "/v1/compress", b'{"messages": 3}', 422),
        ("GET", "/v1/compress", b"", 405),
        ("GET", "/v1/retrieve/nothing", b"", 404),
        ("GET", f"/v1/retrieve/{'0' * 24}", b"", 404),
    ],
)
def test_invalid_requests_are_refused(
    setup: Setup, method: str, path: str, body: bytes, status: int
) -> None:
    response = setup.http.request(method, path, content=body)
    assert response.status_code == status
    assert response.json()["error"]["message"]


@pytest.mark.parametrize(
    "message",
    [
        None,
        5,
        {"role": "assistant", "tool_calls": [{"id": []}]},
        {"role": "tool", "tool_call_id": {}},
        {"role": ["tool"], "content": {"a": 1}},
    ],
)
def test_malformed_messages_are_unchanged(setup: Setup, message: Any) -> None:
    messages = [user("hello"), message]
    for budget in (None, "9" * 5000):
        assert compress(setup, messages, budget=budget)["messages"] == messages


def test_reply_counts_unchanged_messages(setup: Setup) -> None:
    agent = ChatAgent(setup).add_turns(9)
    name = uuid.uuid4().hex
    first = compress(setup, agent.items, session=name, budget=6000)
    assert first["unchanged"] == 0
    agent.add_turns(1)
    second = compress(setup, agent.items, session=name, budget=6000)
    same = second["unchanged"]
    assert same == len(first["messages"])
    assert second["messages"][:same] == first["messages"][:same]
    small = compress(setup, agent.items, session=name, budget=600)
    assert 0 < small["unchanged"] < len(small["messages"])
    assert small["messages"][small["unchanged"]] != second["messages"][small["unchanged"]]


def test_named_format_keeps_first_calls_on_branch(setup: Setup) -> None:
    """Claude Code sends a system message among the others. The Messages format does not record it,
    so it may change."""
    question = user([{"type": "text", "text": "Look."}])
    block = {"type": "text", "text": "# Environment", "cache_control": {"type": "ephemeral"}}
    tool_use = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    tool_result = {"type": "tool_result", "tool_use_id": "a", "content": "All is well."}
    name = uuid.uuid4().hex
    fields = {"session": name, "format": "messages", "client": "claude"}
    compress(setup, [question, system([block])], **fields)
    later = [question, system("# Environment"), assistant([tool_use]), user([tool_result])]
    assert compress(setup, later, **fields)["messages"] == later
    session = setup.service.inspect_session(name)["session"]
    assert (session["branches"], session["client"]) == (1, "claude")


def test_gateway_reports_usage(setup: Setup) -> None:
    messages = history(setup)
    session = compress(setup, messages)["session"]
    usage = {"prompt_tokens": 700, "completion_tokens": 9}
    fields = {"session": session, "model": "gpt-4o", "usage": usage}
    assert setup.post("/v1/compress", fields).json() == {"session": session, "recorded": True}
    next_messages = [assistant("Done."), user("More?")]
    assert compress(setup, [*messages, *next_messages])["session"] == session
    total = setup.service.call
    wait_until(lambda: any(row["calls_with_usage"] for row in total("total_savings", {})["rows"]))
    assert setup.post("/v1/compress", {**fields, "session": "other"}).status_code == 404
    assert setup.post("/v1/compress", {**fields, "usage": 3}).status_code == 422


def test_large_history_is_dropped_after_a_pause(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy forgets its texts, also those in the record of the session's last reply."""
    for module in (app, history_cache):
        monkeypatch.setattr(module, "LARGE_CHARACTERS", 1000)
    cache = setup.proxy.histories.client.core._histories
    name = uuid.uuid4().hex

    def sizes() -> list[int]:
        return [cached.items.characters for cached in cache._histories.values()]

    compress(setup, history(setup), session=name, budget=100_000)
    assert max(sizes()) > 1000
    monkeypatch.setattr(model_calls, "RELEASE_SECONDS", 0.05)
    compress(setup, history(setup), session=name, budget=100_000)
    wait_until(lambda: all(size <= 1000 for size in sizes()), explain=sizes)
    replies = setup.proxy._compression._last_replies.items()
    (last,) = [reply for (_, session), reply in replies if session == name]
    assert last.call.later_render is None and not last.call.fit.body

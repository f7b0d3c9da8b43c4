"""The endpoints that gateways' compression guardrails call."""

import re
import uuid
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json

from tests.proxy.agents import ChatAgent, MessagesAgent, finding
from tests.proxy.conftest import Setup, Start
from tests.support.waiting import until


def history(setup: Setup, kind: Any = ChatAgent, turns: int = 9) -> list[Json]:
    items: list[Json] = kind(setup).grown(turns).items
    return items


@pytest.mark.parametrize("kind", [ChatAgent, MessagesAgent])
def test_messages_fit_and_what_was_taken_out_comes_back(setup: Setup, kind: Any) -> None:
    messages = history(setup, kind)
    name = uuid.uuid4().hex
    made = setup.post(
        "/v1/compress", {"messages": messages, "model": "gpt-4o"}, x_contextrender_session=name
    )
    reply = made.json()
    assert reply["tokens_after"] < 1000 < reply["tokens_before"]
    assert reply["tokens_saved"] == reply["tokens_before"] - reply["tokens_after"]
    assert reply["compression_ratio"] == reply["tokens_after"] / reply["tokens_before"]
    assert [message["role"] for message in reply["messages"]] == [m["role"] for m in messages]
    changed = [b for a, b in zip(messages, reply["messages"], strict=True) if a != b]
    assert len(changed) == len(reply["ccr_hashes"]) > 3
    assert all(id in str(made) for id, made in zip(reply["ccr_hashes"], changed, strict=True))
    assert reply["session"] == name
    found = [setup.http.get(f"/v1/retrieve/{id}").json() for id in reply["ccr_hashes"]]
    assert finding(0) in [one["original_content"] for one in found]
    assert {one["tool_name"] for one in found} == {"look"}
    assert setup.model.asked == []


def test_results_without_their_calls(setup: Setup) -> None:
    messages = [message for message in history(setup) if message["role"] != "assistant"]
    body = {"messages": messages, "model": "gpt-4o"}
    reply = setup.post("/v1/compress", body).json()
    assert len(reply["messages"]) == len(messages)
    assert len(reply["ccr_hashes"]) > 3
    assert finding(8) == reply["messages"][-1]["content"]
    found = [setup.http.get(f"/v1/retrieve/{id}").json() for id in reply["ccr_hashes"]]
    assert finding(0) in [one["original_content"] for one in found]


def test_ids_outlive_the_proxy(setup: Setup, start: Start) -> None:
    made = setup.post("/v1/compress", {"messages": history(setup), "model": "gpt-4o"}).json()
    other = start()
    found = other.http.get(f"/v1/retrieve/{made['ccr_hashes'][0]}").json()
    assert found["original_content"] == finding(0)


def test_excerpts_name_their_id(setup: Setup) -> None:
    messages = history(setup, turns=2)
    messages[3]["content"] = "a line of a result that is far too long\n" * 500
    made = setup.post("/v1/compress", {"messages": messages, "model": "gpt-4o"}).json()
    (told,) = re.findall(r"hash=([0-9a-f]{24})", str(made["messages"]))
    assert told in made["ccr_hashes"]
    found = setup.http.get(f"/v1/retrieve/{told}").json()
    assert found["original_content"] == messages[3]["content"]


def test_a_service_that_is_down_leaves_all(start: Start) -> None:
    setup = start(url="http://127.0.0.1:9", token="t")
    messages = history(setup)
    made = setup.post("/v1/compress", {"messages": messages, "model": "m"}).json()
    assert (made["messages"], made["fail_open"]) == (messages, "unreachable")
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
def test_refusals(setup: Setup, method: str, path: str, body: bytes, status: int) -> None:
    got = setup.http.request(method, path, content=body)
    assert got.status_code == status
    assert got.json()["error"]["message"]


@pytest.mark.parametrize(
    "message",
    [
        None,
        5,
        {"role": "assistant", "tool_calls": 5},
        {"role": "assistant", "tool_calls": [{"id": []}]},
        {"role": "tool", "tool_call_id": {}},
        {"role": ["tool"], "content": {"a": 1}},
    ],
)
@pytest.mark.parametrize("budget", [None, "9" * 5000])
def test_what_is_malformed_comes_back_as_it_came(setup: Setup, message: Any, budget: Any) -> None:
    messages = [{"role": "user", "content": "hello"}, message]
    body = {"model": "m", "messages": messages, "budget": budget}
    got = setup.post("/v1/compress", body)
    assert (got.status_code, got.json()["messages"]) == (200, messages)


def test_a_gateway_is_told_up_to_where_the_cache_has_the_prompt(setup: Setup) -> None:
    agent = ChatAgent(setup).grown(9)
    fields = {"model": "gpt-4o", "budget": 6000}
    name = {"x_contextrender_session": uuid.uuid4().hex}
    first = setup.post("/v1/compress", {"messages": agent.items, **fields}, **name).json()
    assert first["unchanged"] == 0
    agent.grown(1)
    second = setup.post("/v1/compress", {"messages": agent.items, **fields}, **name).json()
    same = second["unchanged"]
    assert same == len(first["messages"])
    assert second["messages"][:same] == first["messages"][:same]
    small = setup.post(
        "/v1/compress", {"messages": agent.items, "model": "gpt-4o", "budget": 600}, **name
    ).json()
    assert 0 < small["unchanged"] < len(small["messages"])
    assert small["messages"][small["unchanged"]] != second["messages"][small["unchanged"]]


def test_a_gateway_gives_the_usage_back(setup: Setup) -> None:
    body = {"messages": history(setup), "model": "gpt-4o"}
    session = setup.post("/v1/compress", body).json()["session"]
    usage = {"prompt_tokens": 700, "completion_tokens": 9}
    told = {"session": session, "model": "gpt-4o", "usage": usage}
    assert setup.post("/v1/compress", told).json() == {"session": session, "noted": True}
    answered = [*body["messages"], {"role": "assistant", "content": "Done."}]
    more = {"messages": [*answered, {"role": "user", "content": "More?"}], "model": "gpt-4o"}
    assert setup.post("/v1/compress", more).json()["session"] == session

    def billed() -> bool:
        rows = setup.service.call("total_savings", {})["rows"]
        return any(row["billed"] for row in rows)

    until(billed)
    assert setup.post("/v1/compress", {**told, "session": "other"}).status_code == 404
    assert setup.post("/v1/compress", {**told, "usage": 3}).status_code == 422

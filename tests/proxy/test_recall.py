"""The model recalls what was left out, and the agent does not notice."""

import json
import uuid
from typing import Any

import httpx
import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.proxy.recall.driver import ROUNDS
from contextrender_bridge.proxy.recall.turns import NAME

from tests.proxy.agents import Agent, ChatAgent, MessagesAgent, ResponsesAgent, finding
from tests.proxy.conftest import Setup
from tests.support.scripted_model import (
    Reply,
    answer_chat,
    answer_messages,
    answer_responses,
    call,
    whole,
)

Part = tuple[str, Any]


class Chat:
    """Replies of the chat model: texts and calls."""

    agent = ChatAgent

    def reply(self, parts: list[Part], streams: bool) -> Reply:
        text = "".join(value for kind, value in parts if kind == "text")
        calls = [call(*value[:2], **value[2]) for kind, value in parts if kind == "call"]
        return answer_chat(streams, text or None, calls)

    def read(self, got: bytes, streams: bool) -> list[Part]:
        if not streams:
            message = json.loads(got)["choices"][0]["message"]
            text, calls = message["content"] or "", message.get("tool_calls", [])
        else:
            text, calls = "", []
            for event in lines(got):
                for choice in event["choices"]:
                    text += choice["delta"].get("content") or ""
                    for piece in choice["delta"].get("tool_calls", ()):
                        if piece["index"] == len(calls):
                            calls.append({**piece, "function": dict(piece["function"])})
                        else:
                            more = piece["function"]["arguments"]
                            calls[piece["index"]]["function"]["arguments"] += more
            reasons = [c["finish_reason"] for e in lines(got) for c in e["choices"]]
            assert [r for r in reasons if r] == ["tool_calls" if calls else "stop"]
            assert got.endswith(b"data: [DONE]\n\n")
            assert got.count(b"[DONE]") == 1
        parts: list[Part] = [("text", text)] if text else []
        for made in calls:
            body = made["function"]
            parts.append(("call", (made["id"], body["name"], json.loads(body["arguments"]))))
        return parts


class Messages:
    """Replies of the Messages model; it thinks first."""

    agent = MessagesAgent

    def reply(self, parts: list[Part], streams: bool) -> Reply:
        blocks: list[Json] = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}]
        for kind, value in parts:
            if kind == "text":
                blocks.append({"type": "text", "text": value})
            else:
                name = {"id": value[0], "name": value[1], "input": value[2]}
                blocks.append({"type": "tool_use", **name})
        reason = "tool_use" if any(kind == "call" for kind, _ in parts) else "end_turn"
        return answer_messages(streams, blocks, reason)

    def read(self, got: bytes, streams: bool) -> list[Part]:
        blocks = [] if streams else json.loads(got)["content"]
        kinds = []
        for event in lines(got) if streams else []:
            kinds.append(event["type"])
            if event["type"] == "content_block_start":
                assert event["index"] == len(blocks)
                blocks.append({**event["content_block"], "input": ""})
            delta = event.get("delta", {})
            if delta.get("type") == "text_delta":
                blocks[event["index"]]["text"] += delta["text"]
            elif delta.get("type") == "input_json_delta":
                blocks[event["index"]]["input"] += delta["partial_json"]
            if event["type"] == "message_delta":
                used = any(block["type"] == "tool_use" for block in blocks)
                assert delta["stop_reason"] == ("tool_use" if used else "end_turn")
        if streams:
            assert kinds.count("message_start") == kinds.count("message_stop") == 1
        assert [block["type"] for block in blocks].count("thinking") == 1
        parts: list[Part] = []
        for block in blocks:
            if block["type"] == "text":
                parts.append(("text", block["text"]))
            elif block["type"] == "tool_use":
                given = json.loads(block["input"]) if streams else block["input"]
                parts.append(("call", (block["id"], block["name"], given)))
        return parts


class Responses:
    """Replies of the Responses model; it reasons first."""

    agent = ResponsesAgent

    def reply(self, parts: list[Part], streams: bool) -> Reply:
        items: list[Json] = [{"type": "reasoning", "id": "rs_x", "summary": []}]
        for kind, value in parts:
            if kind == "text":
                content = [{"type": "output_text", "text": value}]
                items.append({"type": "message", "role": "assistant", "content": content})
            else:
                head = {"type": "function_call", "call_id": value[0], "name": value[1]}
                items.append({**head, "id": f"fc_{value[0]}", "arguments": json.dumps(value[2])})
        return answer_responses(streams, items)

    def read(self, got: bytes, streams: bool) -> list[Part]:
        if streams:
            found = list(lines(got))
            assert [event["sequence_number"] for event in found] == list(range(len(found)))
            assert [event["type"] for event in found].count("response.created") == 1
            done = [e["item"] for e in found if e["type"] == "response.output_item.done"]
            places = [e["output_index"] for e in found if e["type"].endswith("item.added")]
            assert places == list(range(len(done)))
            items = found[-1]["response"]["output"]
            assert plain_items(items) == plain_items(done)
        else:
            items = json.loads(got)["output"]
        parts: list[Part] = []
        for item in items:
            if item["type"] == "message":
                parts.append(("text", item["content"][0]["text"]))
            elif item["type"] == "function_call":
                given = json.loads(item["arguments"])
                parts.append(("call", (item["call_id"], item["name"], given)))
        return parts


def plain_items(items: list[Json]) -> list[Json]:
    return [item for item in items if item["type"] != "reasoning"]


def lines(got: bytes) -> list[Json]:
    found = [line[6:] for line in got.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line) for line in found]


def plain(got: bytes) -> list[Json]:
    """A reply's events, or the reply itself, but for what was used."""
    found = lines(got) or [json.loads(got)]
    for event in found:
        for holder in (event, event.get("message", {}), event.get("response", {})):
            holder.pop("usage", None)
    return found


def used(got: bytes) -> Json:
    found: Json = {}
    for event in lines(got) or [json.loads(got)]:
        for holder in (event.get("message", {}), event.get("response", {}), event):
            found.update(holder.get("usage") or {})
    return found


KINDS = [Chat(), Messages(), Responses()]
RECALL: Part = ("call", ("r1", NAME, {"query": "host_1_X"}))
OTHER: Part = ("call", ("o1", "look", {"at": "x"}))

pytestmark = [
    pytest.mark.parametrize("streams", [False, True]),
    pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__),
]


@pytest.fixture
def agent(setup: Setup, kind: Any, streams: bool) -> Agent:
    made: Agent = kind.agent(setup, uuid.uuid4().hex, streams=streams).grown(7)
    made.headers = {"x-contextrender-recall": "on"}
    return made


def ask(agent: Agent, replies: list[Reply]) -> bytes:
    agent.setup.model.asked.clear()
    agent.setup.model.script = list(replies)
    agent.got = agent.post()
    assert agent.got.status_code == 200
    assert not agent.setup.model.script
    return agent.got.content


def recalled(agent: Agent) -> str:
    """The result that was added to the first of the model's two requests."""
    first, second = (asked.json[agent.key] for asked in agent.setup.model.asked)
    (told,) = agent.results(second[len(first) :])
    return told


def test_only_recalling_is_not_seen(agent: Agent, kind: Any, streams: bool) -> None:
    final = kind.reply([("text", "It was 0ms."), OTHER], streams)
    got = ask(agent, [kind.reply([RECALL], streams), final])
    assert plain(got) == plain(final.body)
    assert agent.got.headers["x-contextrender-recalled"] != "0"
    first, second = [asked.json for asked in agent.setup.model.asked]
    assert NAME in str(first["tools"][-1])
    assert finding(0) not in agent.results(first[agent.key])
    assert finding(0) in recalled(agent)
    assert second[agent.key][: len(first[agent.key])] == first[agent.key]


def test_what_hidden_calls_used_is_added_up(agent: Agent, kind: Any, streams: bool) -> None:
    final = kind.reply([("text", "It was 0ms.")], streams)
    once = used(ask(agent, [final]))
    assert once["input_tokens" if "input_tokens" in once else "prompt_tokens"] == 9
    got = ask(agent, [*[kind.reply([RECALL], streams)] * 2, final])
    assert used(got) == {name: 3 * count for name, count in once.items()}


@pytest.mark.parametrize("rounds", [0, 1])
def test_what_is_refused_after_recalling_is_sent_again_whole(
    agent: Agent, kind: Any, streams: bool, rounds: int
) -> None:
    final = kind.reply([("text", "It was 0ms.")], streams)
    refusal = whole({"error": {"message": "no such order"}}, 400)
    got = ask(agent, [*[kind.reply([RECALL], streams)] * rounds, refusal, final])
    assert got == final.body
    assert agent.got.headers["x-contextrender-fail-open"] == "refused"
    assert agent.setup.model.asked[-1].json[agent.key] == agent.items


def test_a_reply_that_breaks_off_breaks_off(agent: Agent, kind: Any, streams: bool) -> None:
    """Half a reply must not look like a whole one, nor hold the agent."""
    broken = kind.reply([("text", "It was 0ms."), OTHER], streams)
    broken.headers = broken.headers[:1]
    broken.chunks = broken.chunks[:4] if streams else [broken.body[:40]]
    broken.breaks = True
    agent.setup.model.script = [broken]
    if streams:
        with pytest.raises(httpx.RemoteProtocolError):
            agent.post()
    else:
        got = agent.post()
        assert (got.status_code, got.json()["error"]["code"]) == (502, "upstream_unavailable")


def test_what_was_recalled_stays_for_a_while(agent: Agent, kind: Any, streams: bool) -> None:
    ask(agent, [kind.reply([RECALL], streams), kind.reply([OTHER], streams)])
    agent.headers = {}
    shown = [finding(0) in agent.results(body[agent.key]) for body in agent.run(8)]
    assert shown[0] and shown[1]
    assert not shown[-1]
    assert int(agent.got.headers["x-contextrender-tokens-after"]) <= 600


@pytest.mark.parametrize("told", [False, True])
def test_text_before_recall_is_seen_once(
    agent: Agent, kind: Any, streams: bool, told: bool
) -> None:
    """Where a stream's length is `told`, as some providers and caches do, it is another one."""
    replies = [
        kind.reply([("text", "Let me see. "), RECALL], streams),
        kind.reply([("text", "It was 0ms."), OTHER], streams),
    ]
    for reply in replies if told else []:
        length = (b"content-length", str(len(reply.body)).encode())
        reply.headers = [reply.headers[0], length]
    got = kind.read(ask(agent, replies), streams)
    texts = "".join(value for what, value in got if what == "text")
    assert texts == ("Let me see. " if streams else "") + "It was 0ms."
    assert [value for what, value in got if what == "call"] == [OTHER[1]]


def test_recalling_beside_other_calls_leaves_those(agent: Agent, kind: Any, streams: bool) -> None:
    again: Part = ("call", ("r2", *RECALL[1][1:]))
    for parts in ([OTHER, RECALL], [RECALL, OTHER, again]):
        assert kind.read(ask(agent, [kind.reply(parts, streams)]), streams) == [OTHER]
    agent.headers = {}
    sent = agent.run(1)[0]
    assert finding(0) in agent.results(sent[agent.key])


def test_recalling_without_end_ends(agent: Agent, kind: Any, streams: bool) -> None:
    again = [kind.reply([RECALL], streams)] * (ROUNDS + 1)
    assert kind.read(ask(agent, again), streams) == []


def test_a_bad_recall_is_answered(agent: Agent, kind: Any, streams: bool) -> None:
    final = kind.reply([("text", "So be it.")], streams)
    given: Json
    for given in ({"query": 3}, {"results": [1, 999]}):
        bad = ("call", ("r1", NAME, given))
        assert plain(ask(agent, [kind.reply([bad], streams), final])) == plain(final.body)
        assert recalled(agent)

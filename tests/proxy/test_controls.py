"""Session names and compactions in requests to the proxy."""

import uuid
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.proxy.controls import MAX_NAME_CHARS, generated_name, given_name
from contextrender_bridge.proxy.own_calls import is_compaction

from tests.proxy.agents import Agent, MessagesAgent, ResponsesAgent, finding
from tests.proxy.conftest import Setup
from tests.support.scripted_model import Reply, anthropic_message, chat, json_reply, response

CLAUDE = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n"
    "Your task is to create a detailed summary of the conversation so far."
)
CODEX = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."
OPENCODE = "You are a context summarization agent. Write what is needed to go on."


def user(text: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


# The compaction request that each agent appends to its history.
ASKS: list[tuple[type[Agent], Json, Reply]] = [
    (
        MessagesAgent,
        user(CLAUDE),
        json_reply(anthropic_message([{"type": "text", "text": "Summary."}])),
    ),
    (
        ResponsesAgent,
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": CODEX}]},
        json_reply(response([])),
    ),
    (ResponsesAgent, {"type": "compaction_trigger"}, json_reply(response([]))),
]


@pytest.mark.parametrize(("kind", "item", "reply"), ASKS)
def test_compaction_request_is_sent_in_full(
    setup: Setup, kind: type[Agent], item: Json, reply: Reply
) -> None:
    agent = kind(setup, uuid.uuid4().hex).grown(7)
    agent.run(1)
    assert finding(0) not in agent.results(setup.model.asked[-1].json[agent.key])
    setup.model.script = [reply]
    agent.items.append(item)
    response = agent.post()
    assert response.content == reply.body
    assert response.headers["x-contextrender-full-history"] == "compaction"
    assert setup.model.asked[-1].json == agent.body
    assert setup.service.inspect_session(agent.prefix[3:])["session"]["results"] == 8


HISTORY: list[Json] = [
    {"role": "user", "content": "Find the fault."},
    {
        "role": "assistant",
        "tool_calls": [{"id": "a", "function": {"name": "look", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "a", "content": "seen"},
]


@pytest.mark.parametrize(
    ("system", "last", "has_history"),
    [
        # Cline, Gemini CLI, Crush and Roo; Hermes and pi put the history into their instruction.
        (None, "Your task is to create a detailed summary of the conversation so far.", True),
        (
            "You are the component that summarizes internal chat history into a structure.",
            "First, reason in your scratchpad. Then, generate the <state_snapshot>.",
            True,
        ),
        (None, "Provide a detailed summary of our conversation above.", True),
        (None, "Summarize the conversation so far, as described in the instructions.", True),
        (
            None,
            "You are a summarization agent. Make a checkpoint.\n\nTURNS TO SUMMARIZE: context",
            False,
        ),
        (
            "You are a context summarization assistant. Read a conversation.",
            "<conversation>\n[User]: hi\n</conversation>\n\nCreate a structured checkpoint.",
            False,
        ),
        (
            None,
            "Write a summary of the session for the next agent.\n\nUSER: hi\nASSISTANT: ok",
            False,
        ),
    ],
)
def test_compactions_of_every_shape(system: str | None, last: str, has_history: bool) -> None:
    prompt = [{"role": "system", "content": system}] if system else []
    items = [*prompt, *(HISTORY if has_history else ()), user(last)]
    assert is_compaction({"messages": items})
    assert is_compaction({"messages": items, "tools": [{}], "tool_choice": "none"})


def test_other_summary_request_is_not_a_compaction() -> None:
    for text in (
        "Please summarise this article for me: context windows grow.",
        "Write a summary of the session logs in logs/.",
        "Summarize the conversation with the customer in mail.txt.",
    ):
        assert not is_compaction({"messages": [user(text)]})
        assert not is_compaction({"messages": [*HISTORY, user(text)], "tools": [{}]})


def test_similar_requests_are_not_compactions() -> None:
    assert is_compaction({"messages": [{"role": "system", "content": OPENCODE}]}) is False
    begun = [{"role": "system", "content": OPENCODE}, user("Here is the conversation so far: x")]
    assert is_compaction({"messages": begun})
    assert not is_compaction({"messages": begun, "tools": [{}]})
    assert not is_compaction({"messages": [user(CLAUDE), user("go on")]})
    assert not is_compaction({"messages": [user(f"What does {CLAUDE!r} mean?")]})
    for items in ("x", [], [None], [{"content": 5}], [{"content": [5]}], {"a": 1}):
        assert not is_compaction({"messages": items, "input": items})


USER: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]


def name(path: str = "", **headers: str) -> str:
    given = [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()]
    return given_name(path, given) or generated_name(given, USER)


def test_session_name_precedence() -> None:
    assert name("path", x_contextrender_session="own", x_session_id="x") == "path"
    assert name("", x_contextrender_session="own", x_session_id="x") == "own"
    assert name("", x_session_id="x", x_claude_code_session_id="cc") == "x"
    assert name("", x_claude_code_session_id="cc", session_id="codex") == "cc"
    assert name("", session_id="codex") == "codex"
    assert name("").startswith("auto-")


def test_generated_names_differ_by_caller_and_history() -> None:
    first = name("", authorization="Bearer a")
    assert first == name("", authorization="Bearer a")
    assert first != name("", authorization="Bearer b")
    assert first != name("", x_api_key="a")
    other = generated_name([(b"authorization", b"Bearer a")], [{**USER[0], "content": "hi"}])
    assert other != first


def test_invalid_names_are_sanitized() -> None:
    long = "n" * 400
    assert len(name(long)) <= MAX_NAME_CHARS
    assert name(long) != name(long + "n")
    assert name("a\x00b\n") == "a_b"


def test_session_name_in_path_is_decoded(setup: Setup) -> None:
    setup.model.script = [json_reply(chat("x"))]
    response = setup.post("/s/my%20run%2F1/v1/chat/completions", {"messages": USER})
    assert response.headers["x-contextrender-session"] == "my run/1"
    assert setup.model.asked[0].path == "/v1/chat/completions"

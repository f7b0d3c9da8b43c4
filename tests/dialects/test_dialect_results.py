"""Results of tools that the provider runs, texts of documents, and adjacent messages."""

from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import DIALECTS, OBSERVATIONS, MessagePlan

from tests.support.transcripts import assistant, step, user


def assistant_blocks(*blocks: Json) -> Json:
    return assistant(list(blocks))


def text(value: str) -> Json:
    return {"type": "text", "text": value}


SEARCH_BLOCKS: list[Json] = [
    {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "q"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srv1",
        "content": [{"type": "web_search_result", "url": "u", "encrypted_content": "e" * 99}],
    },
]
POINTER: Json = {"type": "web_search_result_location", "encrypted_index": "i", "cited_text": "c"}
MESSAGES: Json = {
    "messages": [
        user("Find out."),
        assistant_blocks(
            text("I search."), *SEARCH_BLOCKS, {**text("It is 5."), "citations": [POINTER]}
        ),
        user("And now?"),
    ]
}
MCP: Json = {
    "type": "mcp_call",
    "id": "mcp1",
    "name": "look",
    "arguments": "{}",
    "output": "found 5",
}
SHELL = {"type": "shell_call", "call_id": "s1", "action": {"commands": ["ls"]}}
SHELL_OUTPUT: Json = {
    "type": "shell_call_output",
    "call_id": "s1",
    "output": [{"stdout": "a b c", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
}
RESPONSES: Json = {"input": [user("Find out."), MCP, SHELL, SHELL_OUTPUT]}


def plan_without(messages: list[Json], *results: int) -> MessagePlan:
    rows = []
    for position, message in enumerate(messages):
        ids = [call["id"] for call in message.get("tool_calls", ())]
        tool_call_ids = {messages[result]["tool_call_id"] for result in results}
        calls = [number for number, id in enumerate(ids) if id not in tool_call_ids]
        if position not in results:
            rows.append({"message": position, "calls": calls})
    return MessagePlan(messages, rows)


def test_anthropic_server_tools_are_results() -> None:
    transcript = DIALECTS["messages"].read(MESSAGES)
    roles = [message["role"] for message in transcript.messages]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert "e" * 99 in transcript.result(2)
    assert transcript.apply(MessagePlan.full_history(transcript.messages)) == MESSAGES
    messages = transcript.apply(plan_without(transcript.messages, 2))["messages"]
    # A citation of an omitted search is removed, because the provider would refuse it.
    assert messages[1] == assistant_blocks(text("I search."), text("It is 5."))
    shortened = MessagePlan.full_history(transcript.messages)
    shortened.replace(2, "[shortened]")
    assert transcript.apply(shortened) == MESSAGES


def test_responses_server_tools_are_results() -> None:
    transcript = DIALECTS["responses"].read(RESPONSES)
    roles = [message["role"] for message in transcript.messages]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]
    assert transcript.messages[2]["content"] == "found 5"
    assert "a b c" in transcript.result(4)
    assert transcript.apply(MessagePlan.full_history(transcript.messages)) == RESPONSES
    assert transcript.apply(plan_without(transcript.messages, 2, 4))["input"] == [
        RESPONSES["input"][0]
    ]
    shortened = MessagePlan.full_history(transcript.messages)
    shortened.replace(2, "found ...")
    shortened.replace(4, "a ...")
    mcp, _, listed = transcript.apply(shortened)["input"][1:]
    assert mcp == {**MCP, "output": "found ..."}
    assert listed["output"] == [{**SHELL_OUTPUT["output"][0], "stdout": "a ..."}]


def test_truncated_text_replaces_its_document() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "long " * 500}
    document = {"type": "document", "source": source}
    body = {"messages": [user([text("Read:"), document])]}
    transcript = DIALECTS["messages"].read(body)
    shortened = MessagePlan.full_history(transcript.messages)
    shortened.replace(0, "Read: long [shortened]")
    (message,) = transcript.apply(shortened)["messages"]
    assert message["content"] == [text("Read: long [shortened]")]


def chat(number: int) -> list[Json]:
    return step(f"c{number}", "look", "{}", "x", f"Step {number}.")


def blocks(number: int) -> list[Json]:
    tool_use = {"type": "tool_use", "id": f"c{number}", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "x"}
    return [assistant_blocks(text(f"Step {number}."), tool_use), user([result])]


@pytest.mark.parametrize(("dialect", "step"), [("chat", chat), ("messages", blocks)])
def test_messages_that_become_adjacent_are_merged(dialect: str, step: Any) -> None:
    items = [user("Go."), *step(0), *step(1), *step(2), *step(3)]
    transcript = DIALECTS[dialect].read({"messages": items})
    messages = transcript.apply(plan_without(transcript.messages, 2, 4))["messages"]
    roles = [items[-2]["role"], items[-1]["role"]]
    assert [item["role"] for item in messages] == ["user", *roles, *roles]
    if dialect == "chat":
        assert messages[1] == {**items[5], "content": "Step 0.\n\nStep 1.\n\nStep 2."}
    else:
        texts = [text(f"Step {number}.") for number in range(3)]
        assert messages[1]["content"] == [*texts, items[5]["content"][-1]]
    assert messages[2:] == items[-3:]


@pytest.mark.parametrize("dialect", ["chat", "messages"])
def test_messages_sent_adjacent_are_not_merged(dialect: str) -> None:
    items = [user("Go.")]
    items += [assistant(f"{number}") for number in range(3)]
    transcript = DIALECTS[dialect].read({"messages": items})
    assert transcript.apply(MessagePlan.full_history(transcript.messages))["messages"] == items


def test_call_in_user_message_is_kept() -> None:
    """An edited history may have one."""
    blocks = [text("Look."), {"type": "tool_use", "id": "u1", "name": "web", "input": {}}]
    body = {
        "messages": [
            user("Why?"),
            assistant_blocks(text("Ask.")),
            user(blocks),
            assistant_blocks(text("Seen.")),
        ]
    }
    transcript = DIALECTS["messages"].read(body)
    first_left_out: list[Any] = [{"message": position, "calls": []} for position in (2, 3)]
    new_body = transcript.apply(MessagePlan(transcript.messages, first_left_out))
    assert new_body["messages"] == body["messages"][2:]


def test_observation_without_answer_is_a_user_message() -> None:
    observation = user("Observation:\n")
    answer, unread = assistant("a"), {"role": "robot", "content": "x"}
    body = {"messages": [answer, observation, unread, observation]}
    begun = OBSERVATIONS.read({"messages": body["messages"][:2]})
    for read in (OBSERVATIONS.read(body), OBSERVATIONS.read(body, begun)):
        assert [message["role"] for message in read.messages] == ["assistant", "tool", "user"]

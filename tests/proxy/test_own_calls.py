"""An agent's own calls: compactions are sent in full, titles and quota checks are not recorded."""
# ruff: noqa: E501

import uuid
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.proxy.own_calls import is_compaction, is_side_call

from tests.proxy.agents import Agent, ChatAgent, MessagesAgent, ResponsesAgent, finding
from tests.proxy.conftest import Setup
from tests.support.scripted_model import anthropic_message, chat, json_reply, response
from tests.support.transcripts import assistant, call, result, system
from tests.support.transcripts import user as ask
from tests.support.waiting import wait_until

TOOLS = {"tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}]}
CALLS: list[Json] = [
    ask("Find the fault."),
    assistant(None, call("a", "look")),
    result("a", "seen"),
]
BLOCKS: list[Json] = [
    ask("Find the fault."),
    assistant([{"type": "tool_use", "id": "a", "name": "x", "input": {}}]),
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "seen"}]},
]
ITEMS: list[Json] = [
    ask("Find the fault."),
    {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "a", "output": "seen"},
]
HELPER = "You are a helpful AI assistant tasked with summarizing conversations."
CLAUDE = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a detailed "
    "summary of the RECENT portion of the conversation."
)
CODEX = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."
MEMENTO = (
    "You have exceeded the maximum number of tokens, please stop coding and instead write a short "
    "memento message for the next agent."
)
ANCHORED = "You are an anchored context summarization assistant for coding sessions."
KIMI = "messages in an agent conversation, given as a task to compact this conversation context"
KIMI_TASK = "--- This message is a direct task, not part of the above conversation ---"
ROO = "CRITICAL: This summarization request is a SYSTEM OPERATION, not a user message."
CLINE = '<explicit_instructions type="summarize_task">\nYour urgent task is to create a summary.'
VIBE = (
    "Create a comprehensive summary of our entire conversation that will serve as complete context "
    "for continuing this work."
)
AGENT = "You are a context summarization agent. Write what is needed to go on."
ARTICLES = (
    "Please summarise this article for me: context windows grow.",
    "Write a summary of the session logs in logs/.",
    "Summarize the conversation with the customer in mail.txt.",
)
ODD_ITEMS: list[Any] = ["x", [], [None], [{"content": 5}], [{"content": [5]}], {"a": 1}]
REMINDER = {"type": "text", "text": "<system-reminder>\nThe date has changed.\n</system-reminder>"}


def user(*texts: str, extra: Json | None = None) -> Json:
    blocks: list[Json] = [{"type": "text", "text": text} for text in texts]
    return {"role": "user", "content": [*blocks, *([extra] if extra else [])]}


@pytest.mark.parametrize(
    "body",
    [
        # Claude Code: newest; with a reminder after it; with a system message after it; oldest.
        {**TOOLS, "messages": [*BLOCKS, user(CLAUDE)]},
        {**TOOLS, "messages": [*BLOCKS, user("Go on.", CLAUDE, extra=REMINDER)]},
        {**TOOLS, "messages": [*BLOCKS, user(CLAUDE), system("Be brief.")]},
        {"system": HELPER, "messages": [*BLOCKS, user(CLAUDE[58:])]},
        {**TOOLS, "messages": [*BLOCKS, user(CLAUDE[58:])]},
        # Codex: a text, an item, the text of its first releases.
        {**TOOLS, "input": [*ITEMS, ask(CODEX)]},
        {**TOOLS, "input": [*ITEMS, {"type": "compaction_trigger"}]},
        {"input": [*ITEMS, ask(MEMENTO)]},
        {"input": [*ITEMS, ask(CODEX), ask("<environment_context>x")]},
        # opencode: older releases send the history as messages, newer ones as text.
        {
            "messages": [
                system(HELPER),
                *CALLS,
                ask("Provide a detailed prompt for continuing our conversation above."),
            ]
        },
        {
            "system": [{"type": "text", "text": HELPER}],
            "messages": [*BLOCKS, ask("Summarize our conversation above.")],
        },
        {"messages": [system(ANCHORED), *CALLS, ask("Update the anchored summary below.")]},
        {"instructions": ANCHORED, "input": [ask("Create a new anchored summary of it.")]},
        # pi and OpenClaw: one text.
        {
            "messages": [
                system("You are a context summarization assistant. Your task is to read it."),
                ask("<conversation>\n[User]: Find it.\n</conversation>"),
            ]
        },
        {
            "messages": [
                system("You are a context summarization assistant. Your task is to read it."),
                ask("# Conversation\n[User]: Find it.\n\n# Instructions\nCreate a checkpoint."),
            ]
        },
        # Of other agents, older and newest releases.
        {"instructions": MEMENTO, "input": [*ITEMS, ask("Start Summarization")]},
        {
            "tools": [{"type": "function", "function": {"name": "_noop", "parameters": {}}}],
            "messages": [system(HELPER), *CALLS, ask("Summarize our conversation above.")],
        },
        {"messages": [*CALLS, ask(f"\n---\n\nThe above is a list of {KIMI}")]},
        {**TOOLS, "messages": [*CALLS, ask(f"\n{KIMI_TASK}\n\nYou are now {KIMI}")]},
        {
            "messages": [
                system("You are the component that summarizes internal chat history."),
                *CALLS,
                ask("First, reason in your scratchpad. Then, generate the <state_snapshot>."),
            ]
        },
        {**TOOLS, "messages": [*BLOCKS, user(ROO)]},
        {**TOOLS, "messages": [*BLOCKS, user(CLINE, extra=REMINDER)]},
        {**TOOLS, "messages": [*CALLS, ask(VIBE)]},
        # Hermes: free wording, recognised by `tool_choice`.
        {
            **TOOLS,
            "tool_choice": "none",
            "messages": [*CALLS, ask("Write a hand-off for the session that goes on.")],
        },
        # Older releases of Crush and Roo; instructions with the history in the same text.
        {"messages": [*CALLS, ask("Provide a detailed summary of our conversation above.")]},
        {"messages": [*CALLS, ask("Summarize the conversation so far, as described.")]},
        {"messages": [ask("You are a summarization agent.\n\nTURNS TO SUMMARIZE: context")]},
        {"messages": [ask("Write a summary of the session for the next agent.\n\nUSER: hi")]},
        {"messages": [system(AGENT), user("Here is the conversation so far: x")]},
    ],
)
def test_compactions_are_recognised(body: Json) -> None:
    assert is_compaction(body)


@pytest.mark.parametrize(
    "body",
    [
        {**TOOLS, "messages": [*CALLS, ask("Summarize our conversation above.")]},
        {"messages": [*CALLS, ask("Fix the summary of the session page.")]},
        {"messages": [ask("Write a summary of our conversation.")]},
        {"messages": [*CALLS, ask(CODEX), assistant("Done.")]},
        {**TOOLS, "messages": [*BLOCKS, user(CLAUDE), assistant("S")]},
        {**TOOLS, "messages": [*BLOCKS, user(f"What does {CLAUDE!r} mean?")]},
        {"messages": [system(HELPER), ask("Write me a poem.")]},
        {"messages": [system(AGENT)]},
        {**TOOLS, "messages": [system(AGENT), user("Here is the conversation so far: x")]},
        {"messages": [user(CLAUDE), user("go on")]},
        *({"messages": [ask(text)]} for text in ARTICLES),
        *({**TOOLS, "messages": [*CALLS, ask(text)]} for text in ARTICLES),
        *({"messages": items, "input": items} for items in ODD_ITEMS),
    ],
)
def test_other_requests_are_not_compactions(body: Json) -> None:
    assert not is_compaction(body)


@pytest.mark.parametrize(
    ("kind", "item", "reply"),
    [
        (MessagesAgent, user(CLAUDE), anthropic_message([{"type": "text", "text": "So far."}])),
        (ResponsesAgent, ask(CODEX) | {"type": "message"}, response([])),
        (ResponsesAgent, {"type": "compaction_trigger"}, response([])),
        (ChatAgent, ask("Provide a detailed prompt for continuing our conversation above."), chat("So far.")),
    ],
)  # fmt: skip
def test_compaction_is_sent_in_full(
    setup: Setup, kind: type[Agent], item: Json, reply: Json
) -> None:
    agent = kind(setup, uuid.uuid4().hex).add_turns(7)
    agent.run(1)
    assert finding(0) not in agent.results(setup.model.requests[-1].json[agent.key])
    setup.model.script = [json_reply(reply)]
    agent.items.append(item)
    answer = agent.post()
    assert answer.json() == reply
    assert answer.headers["x-contextrender-full-history"] == "compaction"
    assert setup.model.requests[-1].json == agent.body
    assert setup.service.inspect_session(agent.prefix[3:])["session"]["results"] == 8


SIDE: list[Json] = [
    {"system": "Write the title in the language of the user.", "messages": [ask("Fix it.")]},
    {"max_tokens": 1, "messages": [ask("quota")]},
    {"tools": [], "system": "Analyze if this message indicates a new conversation topic.", "messages": [ask("Fix it.")]},
    {"messages": [system("You are a title generator. You output ONLY a thread title."), ask("Generate a title for this conversation:"), ask("Fix it.")]},
]  # fmt: skip


@pytest.mark.parametrize("body", SIDE)
def test_titles_topics_and_quota_checks_are_side_calls(body: Json) -> None:
    assert is_side_call(body)
    assert not is_side_call({**body, **TOOLS})


def test_side_call_is_not_recorded(setup: Setup) -> None:
    session = uuid.uuid4().hex
    headers = {"x_session_id": session}
    setup.model.script = [json_reply(chat("Fix the fault")), json_reply(chat("Seen."))]
    answer = setup.post("/v1/chat/completions", {"model": "m", **SIDE[3]}, **headers)
    assert answer.status_code == 200
    assert "x-contextrender-session" not in answer.headers
    assert setup.model.requests[-1].json["messages"] == SIDE[3]["messages"]
    setup.post("/v1/chat/completions", {"model": "m", **TOOLS, "messages": CALLS[:1]}, **headers)
    (view,) = wait_until(lambda: setup.service.list_sessions(query=session)["sessions"])
    assert view["about"].startswith("Find the fault")
    assert setup.service.inspect_session(session)["session"]["branches"] == 1

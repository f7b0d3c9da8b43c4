"""An agent's own compaction sees all of its history, and recall finds what it left behind."""

import uuid

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.proxy.controls import is_compaction

from tests.proxy.agents import Agent, MessagesAgent, ResponsesAgent, finding
from tests.proxy.conftest import Setup
from tests.support.scripted_model import Reply, response, said, whole

CLAUDE = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n"
    "Your task is to create a detailed summary of the conversation so far."
)
CODEX = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."
OPENCODE = "You are a context summarization agent. Write what is needed to go on."


def user(text: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


# What each runtime puts behind its history.
ASKS: list[tuple[type[Agent], Json, Reply]] = [
    (MessagesAgent, user(CLAUDE), whole(said([{"type": "text", "text": "Summary."}]))),
    (
        ResponsesAgent,
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": CODEX}]},
        whole(response([])),
    ),
    (ResponsesAgent, {"type": "compaction_trigger"}, whole(response([]))),
]


@pytest.mark.parametrize(("kind", "item", "reply"), ASKS)
def test_it_is_sent_whole(setup: Setup, kind: type[Agent], item: Json, reply: Reply) -> None:
    agent = kind(setup, uuid.uuid4().hex).grown(7)
    agent.run(1)
    assert finding(0) not in agent.results(setup.model.asked[-1].json[agent.key])
    setup.model.script = [reply]
    agent.items.append(item)
    got = agent.post(x_contextrender_recall="on")
    assert got.content == reply.body
    assert got.headers["x-contextrender-whole"] == "compaction"
    assert setup.model.asked[-1].json == agent.body
    assert setup.service.inspect_session(agent.prefix[3:])["session"]["results"] == 8


def test_what_is_no_compaction() -> None:
    assert is_compaction("chat", {"messages": [{"role": "system", "content": OPENCODE}]}) is False
    begun = [{"role": "system", "content": OPENCODE}, user("Here is the conversation so far: x")]
    assert is_compaction("chat", {"messages": begun})
    assert not is_compaction("chat", {"messages": begun, "tools": [{}]})
    assert not is_compaction("messages", {"messages": [user(CLAUDE), user("go on")]})
    assert not is_compaction("messages", {"messages": [user(f"What does {CLAUDE!r} mean?")]})
    for items in ("x", [], [None], [{"content": 5}], [{"content": [5]}], {"a": 1}):
        for dialect in ("chat", "messages", "responses"):
            assert not is_compaction(dialect, {"messages": items, "input": items})

"""The prompt that the service shows for a call equals the prompt that the client sent."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from contextrender_bridge import ContextRender
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import DIALECTS

from tests.dialects.bodies import chat_body, messages_body
from tests.support.transcripts import agent_run, assistant

TURNS = 67
ASKED = {"rows": 0, "window": 0, "prompt": True}
RUN = [*agent_run(TURNS, lines=14), assistant("It is done.")]
BODIES: dict[str, Callable[[list[Json]], Json]] = {"chat": chat_body, "messages": messages_body}


def canonical(dialect: str, body: Any) -> list[Json]:
    """Return the messages of a body as they are recorded."""
    return [plain(message) for message in DIALECTS[dialect].read(body).messages]


def plain(message: Json) -> Json:
    """Return a message with its arguments as values and its text as words."""
    calls = [
        {
            **call["function"],
            "arguments": json.loads(call["function"]["arguments"]),
            "id": call["id"],
        }
        for call in message.get("tool_calls") or ()
    ]
    return {**message, "tool_calls": calls, "content": (message.get("content") or "").split()}


@pytest.mark.parametrize("dialect", BODIES)
def test_shown_prompt_equals_sent_prompt(client: ContextRender, session: str, dialect: str) -> None:
    """Chat messages are byte-identical; Anthropic messages have equal words."""
    places = [place for place, message in enumerate(RUN) if message["role"] == "assistant"]
    bodies = [BODIES[dialect](RUN[:place]) for place in places]
    rendered_calls = [
        client.fit(session, body, dialect=dialect, budget=2_500, fail_open=False) for body in bodies
    ]
    assert len(rendered_calls) == TURNS + 1 and sum(r.changed for r in rendered_calls) > 40
    for turn, rendered in enumerate(rendered_calls, 1):
        view = client.call("get_call", {"session": session, "turn": turn, **ASKED})
        if dialect == "chat":
            assert json.dumps(view["prompt"]) == json.dumps(list(rendered.messages)), turn
        prompt = canonical("chat", {"messages": view["prompt"]})
        assert prompt == canonical(dialect, rendered.body), turn

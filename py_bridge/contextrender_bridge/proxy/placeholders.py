"""The lines that replace omitted results for a gateway, and the ids by which it retrieves them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.client.replies import RenderView
from contextrender_bridge.dialects import MessagePlan, Transcript
from contextrender_bridge.dialects.contents import plain_text

_ID = re.compile(r"[0-9a-f]{24}")
_RECALL = re.compile(r"recall result \d+ for all of it")
"""The hint in an excerpt for agents with the recall tool, which gateways do not have."""
_BLOCKS = ("tool_use", "tool_result")


def identify(session: str, branch: int, position: int) -> str:
    """Return a result's id of 24 hexadecimal digits, the format that gateways search for.

    The session's digest has 16 of these digits, the branch 2, and the result's position 6.
    """
    return f"{digest_of(session)}{branch % 256:02x}{position % 16**6:06x}"


def read_id(id: str) -> tuple[str, int, int] | None:
    """Return the session's digest, the branch and the position in an id; None if it is invalid."""
    if not _ID.fullmatch(id):
        return None
    return id[:16], int(id[16:18], 16), int(id[18:], 16)


def digest_of(session: str) -> str:
    """Return the part of an id that identifies the session."""
    return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:16]


def texts_for(
    session: str, reply: RenderView, plan: MessagePlan, messages: Sequence[Mapping[str, Any]]
) -> dict[int, tuple[str, str]]:
    """Return a dictionary that maps the position of each shortened result to its id and new text.

    The text is the excerpt of a result that is shown in part, or a line for an omitted result.
    Leave out results that are not longer than the text that would replace them.
    """
    texts: dict[int, tuple[str, str]] = {}
    # The substitutes in the render reply, without those of results that are complete after all.
    excerpts = {
        item["position"]: item["text"]
        for item in reply["substitutes"]
        if not plan.shows_complete(item["position"])
    }
    for position in sorted([*plan.omitted_results(), *excerpts]):
        id = identify(session, reply["branch"], position)
        if excerpt := excerpts.get(position):
            # The gateway has no recall tool, so name the id instead.
            text = _RECALL.sub(f"retrieve hash={id} for all of it", excerpt, count=1)
        else:
            text = f"[A result is left out here; retrieve hash={id} for it]"
        if len(text) < len(plain_text(messages[position].get("content"))):
            texts[position] = (id, text)
    return texts


def replace_results(transcript: Transcript, texts: Mapping[int, str]) -> list[Any]:
    """Return all messages of a request, with new texts for some of its results.

    `texts` maps the position of a result to its new text.
    """
    plan = MessagePlan.full_history(transcript.messages)
    for position, text in texts.items():
        plan.replace(position, text)
    return list(transcript.apply(plan)["messages"])


def with_calls(messages: list[Any]) -> tuple[set[int], list[Any]]:
    """Add a message with a call before each result whose call is missing.

    Return the positions of the added messages in the new list, and the new list of all messages.
    Some guardrails send results without the assistant messages that called the tools.
    """
    call_ids = _call_ids(messages)
    added: set[int] = set()
    completed: list[Any] = []
    for message in messages:
        is_result = isinstance(message, Mapping) and message.get("role") == "tool"
        if is_result and str(message.get("tool_call_id")) not in call_ids:
            function = {"name": str(message.get("name") or "tool"), "arguments": ""}
            call = {"id": message.get("tool_call_id"), "type": "function", "function": function}
            added.add(len(completed))
            completed.append({"role": "assistant", "content": None, "tool_calls": [call]})
        completed.append(message)
    return added, completed


def _call_ids(messages: list[Any]) -> set[str]:
    """Return the ids of the messages' tool calls. Skip malformed messages and calls."""
    call_ids: set[str] = set()
    for message in messages:
        calls = message.get("tool_calls") if isinstance(message, Mapping) else None
        if isinstance(calls, list):
            call_ids.update(str(call.get("id")) for call in calls if isinstance(call, Mapping))
    return call_ids


def has_blocks(messages: list[Any]) -> bool:
    """Return whether messages have `tool_use` or `tool_result` blocks of Anthropic's API."""
    return any(
        isinstance(block, Mapping) and block.get("type") in _BLOCKS
        for message in messages
        if isinstance(message, Mapping) and isinstance(message.get("content"), list)
        for block in message["content"]
    )

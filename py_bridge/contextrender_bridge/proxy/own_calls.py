"""Recognise the model calls that an agent makes for itself: compactions, titles and the like.

In a compaction the model summarises the history, and the summary replaces the history. Such a call
needs the full history, because the agent loses what the summary lacks. A call for a title, a topic
or the quota is no part of the conversation, so it is not recorded.

Agents change the wording of these calls between releases, so this module mostly checks for tools:
agents send their tools with a user's task, but not with a call for themselves. Claude Code and
Codex send their tools with both. Their compactions are recognised by the start of the last message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from contextrender_bridge.client.fitting import tool_name

TEXT_ONLY = "CRITICAL: Respond with TEXT ONLY"
COMPACTIONS_WITH_TOOLS = (
    "Your task is to create a detailed summary of",
    TEXT_ONLY,
    "You are performing a CONTEXT CHECKPOINT COMPACTION",
    "You have exceeded the maximum number of tokens, please stop coding and instead write a short "
    "memento",
    # Agents that `wrap` starts as any command: Kimi, Roo, Cline and Vibe.
    "--- This message is a direct task, not part of the above conversation ---",
    "CRITICAL: This summarization request is a SYSTEM OPERATION",
    '<explicit_instructions type="summarize_task">',
    "Create a comprehensive summary of our entire conversation that will serve as complete context",
)
PLACEHOLDER_TOOL = "_noop"
"""The tool that opencode declares for gateways that refuse calls in a history without tools."""
CLAUDE_CODE_BODY = "Your task is to create a detailed summary"
COMPACTION_ITEMS = frozenset({"compaction_trigger", "context_compaction_trigger"})
HEAD_CHARS = 1_500
"""Only this many characters at the start of an instruction are searched."""

_SUMMARISE = re.compile(
    r"summari[sz]\w*|\bsummary\b|compact(?:ion|ing)?\b|checkpoint|memento|hand-?off"
    r"|(?:detailed|continuation) prompt",
    re.IGNORECASE,
)
_CONVERSATION = re.compile(
    r"conversation|context|session|history|messages above|transcript|next agent|continu",
    re.IGNORECASE,
)
_TASK = re.compile(
    r"^\W*(?:critical\b|important\b|you are|you have|your task|your job|please\b|provide"
    r"|create|write|update|generate|produce|summari[sz]e|compact|the messages above"
    r"|the above is a list of messages|do not|don't|respond)",
    re.IGNORECASE,
)
_TRANSCRIPT = re.compile(
    r"<conversation>|turns to summari[sz]e|^\W*(?:user|assistant|tool result)\W*:", re.I | re.M
)
"""The start of a history that is in the same text as the instruction to summarise it."""
_TITLE = re.compile(
    r"\btitles?\b|\btopics?\b|under 50 characters|branch name|\bquota\b", re.IGNORECASE
)
_TITLE_TASK = re.compile(
    r"generat|writ|creat|coming up|come up|extract|analy[sz]e|summari[sz]e|name this|output only",
    re.IGNORECASE,
)
_ADDITION = re.compile(r"^\s*<(?!conversation>)[\w-]+>")
"""The start of a text that an agent itself adds, such as `<system-reminder>`."""


def is_compaction(body: Mapping[str, Any]) -> bool:
    """Return whether a request asks the model to summarise the history for the agent.

    Such a request ends with a compaction item or a known wording. A request without tools may also
    have any instruction to summarise, in the last message or in the system prompt.
    """
    items = _items(body)
    last = _last_instruction(items)
    if last is None:
        return False
    if isinstance(last, Mapping):
        return last.get("type") in COMPACTION_ITEMS
    # Claude Code begins several kinds of calls with TEXT_ONLY. Among them, only a compaction also
    # contains CLAUDE_CODE_BODY.
    is_other_call = last.startswith(TEXT_ONLY) and CLAUDE_CODE_BODY not in last
    if last.startswith(COMPACTIONS_WITH_TOOLS) and not is_other_call:
        return True
    # Any other wording counts only without tools, because a user may ask for a summary, too.
    if _has_tools(body):
        return False
    # If the history has tool calls, the instruction may be the last message or the system prompt.
    if _has_calls(items):
        return _asks_for_summary(last) or _system_asks_for_summary(body, items)
    # Otherwise the history must be a text in the last message, after the instruction. Without it,
    # the user asks for a summary of something else.
    if _asks_for_summary(last):
        return bool(_TRANSCRIPT.search(last))
    # Or the last message is only the history, and the instruction is in the system prompt.
    return _begins_with_conversation(last) and _system_asks_for_summary(body, items)


def is_side_call(body: Mapping[str, Any]) -> bool:
    """Return whether a request only asks for a title or a topic, or checks the quota."""
    items = _items(body)
    last = _last_instruction(items)
    # Agents send such a request without tools and without the history's tool calls.
    if _has_tools(body) or _has_calls(items) or not isinstance(last, str):
        return False
    # Agents check the quota by a request for one token.
    if body.get("max_tokens") == 1:
        return True
    # The task is in the user's message or in the system prompt.
    return any(
        _TITLE.search(text[:HEAD_CHARS]) and _TITLE_TASK.search(text[:HEAD_CHARS])
        for text in (last, *_system_texts(body, items))
    )


def _items(body: Mapping[str, Any]) -> Sequence[Any]:
    """Return the list of a request's messages or items, or an empty list if there is none."""
    for key in ("messages", "input"):
        items = body.get(key)
        if isinstance(items, list):
            return items
    return []


def _last_instruction(items: Sequence[Any]) -> str | Mapping[str, Any] | None:
    """Return the user's last text, or an item of `COMPACTION_ITEMS` if that comes last.

    Skip what agents add after the user's text: system messages, and blocks such as reminders.
    Return None if a message of the model, a result or media comes last.
    """
    for item in reversed(items):
        if not isinstance(item, Mapping):
            return None
        if item.get("type") in COMPACTION_ITEMS:
            return item
        if item.get("role") in ("system", "developer"):
            continue
        if item.get("role") != "user":
            return None
        texts = [text for text in _texts(item.get("content")) if not _ADDITION.match(text)]
        if texts:
            return texts[-1].lstrip()
        if not _is_text(item.get("content")):
            return None
        # The message has only texts that the agent added. Look at the message before it.
    return None


def _texts(content: Any) -> list[str]:
    """Return the texts of a message's content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    return [
        block["text"]
        for block in blocks
        if isinstance(block, Mapping) and isinstance(block.get("text"), str)
    ]


def _is_text(content: Any) -> bool:
    """Return whether a message's content has nothing but texts."""
    return isinstance(content, str) or (
        isinstance(content, list)
        and all(isinstance(block, Mapping) and "text" in block for block in content)
    )


def _system_texts(body: Mapping[str, Any], items: Sequence[Any]) -> Iterator[str]:
    """Yield the texts of the system prompt: of two fields, and of the first three items.

    System messages after those are ignored, because they are reminders that the agent inserts.
    """
    for content in (body.get("system"), body.get("instructions")):
        yield from _texts(content)
    for item in items[:3]:
        if isinstance(item, Mapping) and item.get("role") in ("system", "developer"):
            yield from _texts(item.get("content"))


def _has_tools(body: Mapping[str, Any]) -> bool:
    """Return whether the model may call tools.

    It may not if only the placeholder tool is declared, or `tool_choice` forbids calls.
    """
    tools = body.get("tools")
    names = [tool_name(tool) for tool in tools] if isinstance(tools, list) else []
    if not tools or names == [PLACEHOLDER_TOOL]:
        return False
    return body.get("tool_choice") not in ("none", {"type": "none"})


def _has_calls(items: Sequence[Any]) -> bool:
    """Return whether the history has tool calls or results, in any request format."""
    for item in items:
        fields = item if isinstance(item, Mapping) else {}
        if fields.get("tool_calls") or fields.get("role") == "tool":
            return True
        # In the other formats, calls and results are items or blocks with a type.
        content = fields.get("content")
        blocks = content if isinstance(content, list) else []
        parts = (part for part in (fields, *blocks) if isinstance(part, Mapping))
        if any(part.get("type") in CALL_TYPES for part in parts):
            return True
    return False


CALL_TYPES = ("tool", "tool_use", "tool_result", "function_call", "function_call_output")
"""The types of items and blocks that are tool calls or results."""


def _system_asks_for_summary(body: Mapping[str, Any], items: Sequence[Any]) -> bool:
    """Return whether a system prompt asks for a summary of the history."""
    return any(map(_asks_for_summary, _system_texts(body, items)))


def _asks_for_summary(text: str) -> bool:
    """Return whether a text begins with an instruction to summarise the history."""
    head = text.lstrip()[:HEAD_CHARS]
    return bool(_TASK.match(head) and _SUMMARISE.search(head) and _CONVERSATION.search(head))


def _begins_with_conversation(text: str) -> bool:
    """Return whether a text begins with the history to summarise, or refers to it."""
    head = text.lstrip()[:HEAD_CHARS]
    return bool(_CONVERSATION_START.match(head))


_CONVERSATION_START = re.compile(
    r"here is the conversation|<conversation>|# conversation\s*\n|conversation (?:history|so far)"
    r"|the messages above"
    r"|(?:create|update) (?:a new|the) anchored summary",
    re.IGNORECASE,
)

"""Requests by which an agent has the model summarise its history, to go on with the summary alone.

They need all of the history: what is hidden from the summary is lost to the agent. They are known
by what the runtimes send; a header says so for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice
from typing import Any

from contextrender_bridge.dialects.contents import plain_text

CLAUDE_CODE = ("CRITICAL: Respond with TEXT ONLY", "Your task is to create a detailed summary")
CODEX = "You are performing a CONTEXT CHECKPOINT COMPACTION"
CODEX_ITEM = "compaction_trigger"
OPENCODE = ("You are a context summarization agent", "Here is the conversation so far")


def is_compaction(dialect: str, body: Mapping[str, Any]) -> bool:
    """Whether a request of that dialect is such a one of Claude Code, Codex or opencode."""
    if dialect == "messages" and _is_claude_codes(_items(body, "messages")):
        return True
    if dialect == "responses" and _is_codexs(_items(body, "input")):
        return True
    return _is_opencodes(body)


def _is_claude_codes(items: Sequence[Any]) -> bool:
    """The same system and tools, and behind the history what to do with it.

    Newer models' requests may end with a system message of the agent's own.
    """
    said = [i for i in items if isinstance(i, Mapping) and i.get("role") != "system"]
    content = said[-1].get("content") if said else None
    text = _text(content[-1:] if isinstance(content, list) else content)
    return text.startswith(CLAUDE_CODE[0]) and CLAUDE_CODE[1] in text


def _is_codexs(items: Sequence[Any]) -> bool:
    """The built-in provider has an item for it, others are sent a text."""
    last = items[-1] if items and isinstance(items[-1], Mapping) else {}
    return last.get("type") == CODEX_ITEM or _text(last.get("content")).startswith(CODEX)


def _is_opencodes(body: Mapping[str, Any]) -> bool:
    """The history as one text of the user's."""
    if body.get("tools"):
        return False
    items = _items(body, "messages") or _items(body, "input")
    said = (item.get("content") for item in items if isinstance(item, Mapping))
    parts = chain((body.get("system"), body.get("instructions")), said)
    # A third text, and it is another's: the rest of a long history need not be looked at.
    texts = list(islice(filter(None, map(_text, parts)), 3))
    return len(texts) == 2 and all(t.startswith(m) for t, m in zip(texts, OPENCODE, strict=True))


def _items(body: Mapping[str, Any], key: str) -> Sequence[Any]:
    items = body.get(key)
    return items if isinstance(items, list) else []


def _text(content: Any) -> str:
    return plain_text(content).lstrip() if isinstance(content, (str, list)) else ""

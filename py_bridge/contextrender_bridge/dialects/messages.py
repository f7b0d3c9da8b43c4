"""Anthropic Messages: `system`, and `messages` of content blocks with `tool_use`/`tool_result`.

Long because the API's block types are many, and reading and applying must treat each alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.base import (
    NO_ITEM,
    Body,
    Dialect,
    Placed,
    Transcript,
    history_end,
    join_blocks,
    merged,
    usable,
)
from contextrender_bridge.dialects.cache_marks import Block, cache_ttl_minutes, marked, marks_in
from contextrender_bridge.dialects.call_pairing import answered_id, made_id
from contextrender_bridge.dialects.contents import (
    GONE,
    MEDIA,
    CutText,
    canonical_content,
    clean_text,
    holds_text,
    part_with,
    plain_text,
    whole_text,
    with_text,
)
from contextrender_bridge.dialects.message_plan import MessagePlan
from contextrender_bridge.dialects.signatures import sign_first

# Not sets, here and in the other dialects: what a caller writes for a type may have no hash.
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_POINTERS = ("web_search_result_location", "search_result_location")
_THINKING = ("thinking", "redacted_thinking")
# Claude Code's first system block holds a hash that differs in every request.
_BILLING = "x-anthropic-billing-header:"
_UNKNOWN = -1


class _Part(NamedTuple):
    """What a block is of the canonical transcript: its message, and the call it is, if any."""

    kind: str
    message: int = _UNKNOWN
    call: int = -1


class MessagesTranscript(Transcript):
    """One canonical message for an assistant's blocks, one for each result, one for a user's.

    System messages among `messages` always stay, and are not recorded: what Claude Code says in
    the newest one is no longer there in the next call.
    """

    def __init__(self, body: Body, before: Transcript | None = None) -> None:
        system = _system_text(body.get("system"))
        past = usable(before, MessagesTranscript, system)
        super().__init__(body, "messages", past, system)
        self._parts: list[list[_Part]] = past._parts[: self._known] if past else []
        self._served: set[int] = set(past._served) if past else set()
        if system is not None and not past:
            self.messages.append({"role": "system", "content": system})
            self._read_item(NO_ITEM, stays=False)
        for index, item in enumerate(self._fresh, self._known):
            blocks = _blocks(item)
            self._parts.append([] if blocks is None else self._read(item, blocks))
            kinds = {part.kind for part in self._parts[-1]}
            self._read_item(index, stays="other" in kinds or kinds <= {"thinking"})
        self._parts += [[] for _ in self._items[self._end :]]
        self._marked: list[int] = [n for n in past._marked if n < self._known] if past else []
        fresh = enumerate(self._items[self._known :], self._known)
        self._marked += [index for index, item in fresh if marks_in(item)]

    @property
    def cache_ttl_minutes(self) -> float:
        """As the marks of the request say: the agent's own decide."""
        return cache_ttl_minutes(self._body)

    def apply(self, plan: MessagePlan) -> Json:
        """The body with only the blocks that the plan shows; a message without any is left out."""
        if not self._items:
            return dict(self._body)
        kept: list[Placed] = []
        staying = self._staying(plan)
        uncited = any(not plan.shows(message) for message in self._served)
        marks: dict[int, Json] = {}
        if plan.breakpoints:
            blocks = self._shown(plan, staying)
            marks = marked(self._body, blocks, plan.breakpoints, self._marked)
        for index in staying:
            item, parts = marks.get(index, self._items[index]), self._parts[index]
            left = _applied(item, parts, plan) if parts else item
            if left is not None or not parts:
                kept.append((index, _without_citations(left) if uncited else left))
        if len(kept) < len(self._items):
            end = history_end([item for _, item in kept])
            kept[:end] = _in_place(kept[:end])
        return {**self._body, "messages": merged(kept, join_blocks, self._apart(()))}

    def result(self, message: int) -> Any:
        """The content of the `tool_result` block; of a tool that the provider ran, as text."""
        content = self._results[message].get("content")
        return whole_text(content) if message in self._served else content

    def _shown(self, plan: MessagePlan, staying: Sequence[int]) -> list[Block]:
        """The blocks that stay, or whose shortened text stays in their place."""
        return [
            Block(index, number, part.message, block)
            for index in staying
            for number, (block, part) in enumerate(
                zip(_blocks(self._items[index]) or (), self._parts[index], strict=False)
            )
            if _stays(part, plan)
        ]

    def _read(self, item: Json, blocks: Sequence[Any]) -> list[_Part]:
        if item["role"] == "assistant":
            return self._read_assistant(blocks)
        return self._read_user(item["role"], blocks)

    def _read_assistant(self, blocks: Sequence[Any]) -> list[_Part]:
        """One message; where the provider ran a tool, its result and another one follow."""
        parts: list[_Part] = []
        spoken: list[Any] = []
        calls: list[Json] = []
        for block in blocks:
            place, kind = len(self.messages), _kind(block)
            if kind == "served":
                if spoken or calls:
                    self._finish_assistant(spoken, calls)
                result = self._add_result(block, block["tool_use_id"], block.get("content"))
                parts.append(_Part("served", result))
                self._served.add(result)
            elif kind == "call":
                parts.append(_Part("call", place, len(calls)))
                calls.append(_call(block, made_id(place, len(calls))))
            else:
                parts.append(_Part(kind, place))
                if kind != "thinking":
                    spoken.append(block)
        if spoken or calls or not (parts and parts[-1].kind == "served"):
            self._finish_assistant(spoken, calls)
        return parts

    def _finish_assistant(self, spoken: list[Any], calls: list[Json]) -> None:
        message: Json = {"role": "assistant", "content": canonical_content(list(spoken)) or None}
        if calls:
            message["tool_calls"] = list(calls)
        self.messages.append(message)
        spoken.clear()
        calls.clear()

    def _read_user(self, role: str, blocks: Sequence[Any]) -> list[_Part]:
        parts: list[_Part] = []
        spoken: list[Any] = []
        for number, block in enumerate(blocks):
            kind = _kind(block)
            if kind == "result":
                self._finish_user(role, spoken)
                answered = answered_id(
                    self.messages, block.get("tool_use_id"), None, _ids_in(blocks[number + 1 :])
                )
                if answered:
                    result = self._add_result(block, answered, block.get("content"))
                    parts.append(_Part("result", result))
                    continue
            # A call in a user's message is nobody's, and this result is no call's: they stay.
            stays = kind in ("call", "result")
            parts.append(_Part("other" if stays else kind, len(self.messages)))
            spoken.append(block)
        self._finish_user(role, spoken)
        return parts

    def _finish_user(self, role: str, spoken: list[Any]) -> None:
        if spoken:
            self.messages.append({"role": role, "content": canonical_content(spoken)})
            spoken.clear()


MESSAGES = Dialect("messages", MessagesTranscript)


def _system_text(system: Any) -> str | None:
    """What is recorded of the system prompt, if there is one."""
    if isinstance(system, list):
        system = [block for block in system if not _text_of(block).startswith(_BILLING)]
    return plain_text(system) if system else None


def _in_place(items: Sequence[Placed]) -> list[Placed]:
    """`items` with each system message where the API takes one: after a user's message, and
    before the model's or at the end. One whose model message has left waits for the next.
    """
    placed: list[Placed] = []
    waiting: list[Placed] = []
    last = None
    for place, item in items:
        role = _role(item)
        if role == "system":
            waiting.append((place, item))
            continue
        if role == "assistant" and last == "user":
            placed += waiting
            waiting = []
        placed.append((place, item))
        last = role
    return placed + waiting


def _applied(item: Json, parts: Sequence[_Part], plan: MessagePlan) -> Json | None:
    content = item["content"]
    if isinstance(content, str):
        shown, text = plan.shows(parts[0].message), plan.text(parts[0].message)
        if not shown or text == "":
            return None
        return item if text is None else {**item, "content": text}
    kept: list[Any] = []
    written: set[int] = set()
    cut = _cut_blocks(content, parts, plan)
    for number, (block, part) in enumerate(zip(content, parts, strict=True)):
        left = cut[number] if number in cut else _applied_block(block, part, plan, written)
        if left is not GONE:
            kept.append(left)
    if len(kept) == len(content) and all(a is b for a, b in zip(kept, content, strict=True)):
        return item
    kept = _signed(kept, content)
    if all(_kind(block) == "thinking" for block in kept):
        return None
    return {**item, "content": kept}


def _cut_blocks(
    content: Sequence[Any], parts: Sequence[_Part], plan: MessagePlan
) -> dict[int, Any]:
    """Return the blocks, by number, of messages whose texts are cut, each block by itself."""
    found: dict[int, Any] = {}
    for message in {part.message for part in parts}:
        text = plan.text(message) if plan.shows(message) else None
        if isinstance(text, CutText):
            numbers = [n for n, p in enumerate(parts) if p.message == message and p.kind == "text"]
            found |= zip(numbers, text.cut_parts([content[n] for n in numbers]), strict=True)
    return found


def _applied_block(block: Any, part: _Part, plan: MessagePlan, written: set[int]) -> Any:
    """Return the block, shortened if need be, or GONE. `written`: messages whose text is there."""
    if part.kind in ("thinking", "other"):
        return block
    if part.kind == "call":
        if not plan.shows_call(part.message, part.call):
            return GONE
        arguments = plan.arguments(part.message, part.call)
        return block if arguments is None else {**block, "input": json.loads(arguments)}
    if not plan.shows(part.message):
        return GONE
    text = plan.text(part.message)
    if text is None or part.kind == "media":
        return block
    if part.kind == "served" and block["type"] != "mcp_tool_result":
        return block  # What the provider's own tools found, it takes back only as it was.
    if part.kind in ("result", "served"):
        return {**block, "content": with_text(block.get("content"), text)}
    if not text or part.message in written:
        return GONE
    written.add(part.message)
    return part_with(block, text)


def _stays(part: _Part, plan: MessagePlan) -> bool:
    if part.kind == "call":
        return plan.shows_call(part.message, part.call)
    if part.kind == "text":
        return plan.shows_whole(part.message)
    return part.kind in ("result", "media") and plan.shows(part.message)


def _without_citations(item: Any) -> Any:
    """The model's message without pointers into search results: some are no longer there."""
    if _role(item) != "assistant" or not isinstance(item.get("content"), list):
        return item
    blocks = [
        {key: block[key] for key in block if key != "citations"} if _cites(block) else block
        for block in item["content"]
    ]
    return {**item, "content": blocks}


def _cites(block: Any) -> bool:
    cited = block.get("citations") if isinstance(block, Mapping) else None
    return isinstance(cited, list) and any(
        isinstance(each, Mapping) and each.get("type") in _POINTERS for each in cited
    )


def _blocks(item: Any) -> Sequence[Any] | None:
    """A message's content as blocks; None when it is not a user's or the model's."""
    if not isinstance(item, dict) or item.get("role") not in ("user", "assistant"):
        return None
    content = item.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else None


def _role(item: Any) -> Any:
    return item.get("role") if isinstance(item, Mapping) else None


def _kind(block: Any) -> str:
    if not isinstance(block, Mapping):
        return "other"
    kind = block.get("type")
    if kind in _CALLS and isinstance(block.get("name"), str):
        is_unnamed = kind == "tool_use" and not block.get("id")
        return "call" if is_unnamed or _is_id(block.get("id")) else "other"
    if kind == "tool_result":
        return "result"
    if isinstance(kind, str) and kind.endswith("tool_result") and _is_id(block.get("tool_use_id")):
        return "served"
    if kind in _THINKING:
        return "thinking"
    if holds_text(block):
        return "text"
    return "media" if isinstance(kind, str) and kind in MEDIA else "other"


def _signed(kept: list[Any], content: Sequence[Any]) -> list[Any]:
    """Return the blocks that stay of a message; its first call is signed as it was."""
    calls = [block for block in content if _kind(block) == "call"]
    places = [place for place, block in enumerate(kept) if _kind(block) == "call"]
    numbers = [n for n, call in enumerate(calls) if any(_is_same(call, kept[p]) for p in places)]
    signed = sign_first(calls, dict(zip(numbers, (kept[p] for p in places), strict=False)))
    for place, number in zip(places, numbers, strict=False):
        kept[place] = signed[number]
    return kept


def _is_same(call: Json, other: Json) -> bool:
    """Return whether a block is this call, perhaps with other arguments."""
    return call is other or (_is_id(call.get("id")) and call.get("id") == other.get("id"))


def _ids_in(blocks: Sequence[Any]) -> list[object]:
    """Return the ids of the results among these blocks."""
    return [block.get("tool_use_id") for block in blocks if isinstance(block, Mapping)]


def _call(block: Mapping[str, Any], made: str) -> Json:
    arguments = json.dumps(block.get("input"), ensure_ascii=False)
    function = {"name": clean_text(block["name"]), "arguments": clean_text(arguments)}
    return {"id": clean_text(block.get("id") or made), "type": "function", "function": function}


def _is_id(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _text_of(block: Any) -> str:
    text = block.get("text") if isinstance(block, Mapping) else None
    return text if isinstance(text, str) else ""

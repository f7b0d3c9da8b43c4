"""Anthropic Messages: `system`, and `messages` of content blocks like `tool_use`, `tool_result`.

Long because the API's block types are many, and reading and applying must treat each alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.base import (
    NO_ITEM,
    Body,
    Dialect,
    NumberedItem,
    Transcript,
    history_end,
    reusable_transcript,
)
from contextrender_bridge.dialects.cache_marks import Block, cache_ttl_minutes, mark_items, marks_in
from contextrender_bridge.dialects.call_pairing import answered_id, generated_id
from contextrender_bridge.dialects.contents import (
    MEDIA,
    OMITTED,
    CutText,
    canonical_content,
    clean_text,
    full_text,
    holds_text,
    part_with,
    parts_of,
    plain_text,
    with_text,
)
from contextrender_bridge.dialects.message_plan import MessagePlan, ShownParts
from contextrender_bridge.dialects.signatures import move_signature

# These are no sets, because a request may have a type without a hash.
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_THINKING = ("thinking", "redacted_thinking")
_SEARCH_CITATIONS = ("web_search_result_location", "search_result_location")
# The start of Claude Code's first system block, whose hash differs in every request.
_BILLING_START = "x-anthropic-billing-header:"
_UNKNOWN = -1
PartsByMessage = Mapping[int, ShownParts]


class _BlockReading(NamedTuple):
    """The result of reading a content block.

    - `kind`: text, media, thinking, call, result, provider_result (of a tool that the provider ran)
      or other.
    - `message`: the position of the canonical message that the block was read into.
    - `call`: the number of a call among the message's calls; -1 for other blocks.
    """

    kind: str
    message: int = _UNKNOWN
    call: int = -1


class MessagesTranscript(Transcript):
    """The transcript of a Messages request.

    Each result becomes one canonical message. The other blocks of an assistant message become one
    message. The blocks of a user message between two results also become one message. System
    messages among `messages` are always sent and not recorded, because Claude Code sends the newest
    one only once.
    """

    def __init__(self, body: Body, previous: Transcript | None = None) -> None:
        """Read `system` and the items of `messages`, and record which items have cache marks.

        If `previous`, an earlier transcript, can be reused, copy what it read of the items before
        `_read_count`, and read the others. The last items, from `_end` on, may change in the next
        request, so they are not read.
        """
        # The earlier transcript can be reused only if it has the same system prompt.
        system = _system_text(body.get("system"))
        earlier = reusable_transcript(previous, MessagesTranscript, system)
        super().__init__(body, "messages", earlier, system)
        self._readings: list[list[_BlockReading]] = (
            earlier._readings[: self._read_count] if earlier else []
        )
        # The positions of results of tools that the provider ran.
        self._provider_results: set[int] = set(earlier._provider_results) if earlier else set()
        if system is not None and not earlier:
            self.messages.append({"role": "system", "content": system})
            self._finish_item(NO_ITEM, is_always_sent=False)
        self._read_new_items()
        # The numbers of the items with cache marks of the agent, also of those from `_end` on.
        self._marked: list[int] = (
            [n for n in earlier._marked if n < self._read_count] if earlier else []
        )
        unread_items = enumerate(self._items[self._read_count :], self._read_count)
        self._marked += [index for index, item in unread_items if marks_in(item)]

    def _read_new_items(self) -> None:
        """Read each new item, and add how each of its blocks was read to the readings.

        A plan decides on texts, media, calls and results. An item without any of these, or with a
        block that cannot be read, is always sent.
        """
        for index, item in enumerate(self._new_items, self._read_count):
            blocks = _blocks(item)
            self._readings.append([] if blocks is None else self._read(item, blocks))
            kinds = {reading.kind for reading in self._readings[-1]}
            has_nothing_to_plan = kinds <= {"thinking"}
            self._finish_item(index, is_always_sent="other" in kinds or has_nothing_to_plan)
        self._readings += [[] for _ in self._items[self._end :]]

    @property
    def cache_ttl_minutes(self) -> float:
        """The longest lifetime, in minutes, of the agent's own cache marks."""
        return cache_ttl_minutes(self._body)

    def apply(self, plan: MessagePlan) -> Json:
        """Return the body with only the blocks that the plan shows.

        Mark the plan's cache breakpoints, omit empty messages, move system messages to accepted
        places, and merge messages of the model that become neighbours.
        """
        if not self._items:
            return dict(self._body)
        shown_items: list[NumberedItem] = []
        remaining = self._remaining_items(plan)
        parts = plan.parts(
            {reading.message for index in remaining for reading in self._readings[index]}
        )
        provider_results = plan.parts(self._provider_results).values()
        omits_provider_result = not all(part.is_shown for part in provider_results)
        # Copies of the items that get a cache mark, by number.
        newly_marked: dict[int, Json] = {}
        if plan.breakpoints:
            blocks = self._markable_blocks(parts, remaining)
            newly_marked = mark_items(self._body, blocks, plan.breakpoints, self._marked)
        for index in remaining:
            item, readings = newly_marked.get(index, self._items[index]), self._readings[index]
            if readings:  # Otherwise the plan does not decide on the item: send it as it is.
                item = _shown_item(item, readings, parts)
                if item is None:
                    continue
            if omits_provider_result:
                # The item may cite an omitted result.
                item = _without_citations(item)
            shown_items.append((index, item))
        if len(shown_items) < len(self._items):
            # Omitted items may leave a system message at a place that the API refuses. Place these
            # messages before `end`, where the volatile items at the end of the prompt begin.
            end = history_end([item for _, item in shown_items])
            shown_items[:end] = _place_system_messages(shown_items[:end])
        return {**self._body, "messages": self._merge_neighbours(shown_items, _join_blocks)}

    def result(self, message: int) -> Any:
        """Return the content of the result at position `message`.

        If the provider ran the tool, return the content as a text.
        """
        content = self._results[message].get("content")
        return full_text(content) if message in self._provider_results else content

    def _answer_ends(self) -> dict[int, int]:
        """Return a dictionary that maps each message of an answer to the answer's last message.

        Both are positions. Only answers in which the provider ran a tool are included, because
        other answers have one message.
        """
        ends: dict[int, int] = {}
        for result in self._provider_results:
            readings = self._readings[self._item_of[result]]
            ends |= {reading.message: readings[-1].message for reading in readings}
        return ends

    def _markable_blocks(self, parts: PartsByMessage, remaining: Sequence[int]) -> list[Block]:
        """Return the blocks of the remaining items that can carry a cache mark in the prompt."""
        return [
            Block(index, number, reading.message, block)
            for index in remaining
            for number, (block, reading) in enumerate(
                zip(_blocks(self._items[index]) or (), self._readings[index], strict=False)
            )
            if _can_carry_mark(reading, parts[reading.message])
        ]

    def _read(self, item: Json, blocks: Sequence[Any]) -> list[_BlockReading]:
        """Append the canonical messages of an item, and return how each of its blocks was read."""
        if item["role"] == "assistant":
            return self._read_assistant(blocks)
        return self._read_user(item["role"], blocks)

    def _read_assistant(self, blocks: Sequence[Any]) -> list[_BlockReading]:
        """Append the canonical messages of an assistant message with these blocks.

        Return how each block was read, in the order of the blocks. The result of a tool that the
        provider ran becomes a message of its own. So the blocks before and after it become two
        assistant messages.
        """
        readings: list[_BlockReading] = []
        # The content and the calls of the assistant message that is being read.
        content_blocks: list[Any] = []
        calls: list[Json] = []
        # The ids of the provider's code executions that made calls themselves.
        callers = [id for block in blocks if (id := _caller_id(block))]
        for block in blocks:
            position, kind = len(self.messages), _kind(block)
            if kind == "call" and (_caller_id(block) or block.get("id") in callers):
                # The provider's code made this call, or this is the call that started the code.
                # They refer to each other, so always send both.
                kind = "other"
            if kind == "provider_result":
                # End the message with the blocks so far, and add the result after it.
                if content_blocks or calls:
                    self._add_assistant(content_blocks, calls)
                    content_blocks, calls = [], []
                result = self._add_result(block, block["tool_use_id"], block.get("content"))
                readings.append(_BlockReading("provider_result", result))
                self._provider_results.add(result)
            elif kind == "call":
                readings.append(_BlockReading("call", position, len(calls)))
                calls.append(_call(block, generated_id(position, len(calls))))
            else:
                readings.append(_BlockReading(kind, position))
                if kind != "thinking":  # Thinking is not recorded.
                    content_blocks.append(block)
        # End the last message, unless a result comes last. If all blocks are thinking, this is a
        # message without content.
        if not (readings and readings[-1].kind == "provider_result"):
            self._add_assistant(content_blocks, calls)
        return readings

    def _add_assistant(self, content_blocks: list[Any], calls: list[Json]) -> None:
        """Append an assistant message with this content and these calls."""
        content = canonical_content(content_blocks) or None
        tool_calls = {"tool_calls": calls} if calls else {}
        self.messages.append({"role": "assistant", "content": content, **tool_calls})

    def _read_user(self, role: str, blocks: Sequence[Any]) -> list[_BlockReading]:
        """Append the canonical messages of a user message with these blocks.

        Return how each block was read, in the order of the blocks. Each result becomes a message of
        its own. The other blocks become one message for each run of blocks without a result.
        """
        readings: list[_BlockReading] = []
        # The blocks of the message that is being read.
        content_blocks: list[Any] = []
        for number, block in enumerate(blocks):
            kind = _kind(block)
            if kind == "result":
                self._add_user(role, content_blocks)
                content_blocks = []
                # The result may have no id. Then find its call, but none that a later result names.
                later_ids = _ids_in(blocks[number + 1 :])
                call_id = answered_id(self.messages, block.get("tool_use_id"), None, later_ids)
                if call_id:
                    result = self._add_result(block, call_id, block.get("content"))
                    readings.append(_BlockReading("result", result))
                    continue
            # A call in a user's message or a result without a call has no pair: always send it.
            is_unpaired = kind in ("call", "result")
            readings.append(_BlockReading("other" if is_unpaired else kind, len(self.messages)))
            content_blocks.append(block)
        self._add_user(role, content_blocks)
        return readings

    def _add_user(self, role: str, content_blocks: list[Any]) -> None:
        """Append a message with this content, unless there is none."""
        if content_blocks:
            self.messages.append({"role": role, "content": canonical_content(content_blocks)})


MESSAGES = Dialect("messages", MessagesTranscript)


def _system_text(system: Any) -> str | None:
    """Return the system prompt to record, or None if there is none.

    Claude Code's billing block differs in every request, so it is left out.
    """
    if isinstance(system, list):
        system = [block for block in system if not _text_of(block).startswith(_BILLING_START)]
    return plain_text(system) if system else None


def _join_blocks(before: Json, after: Json) -> Json:
    """Merge two messages of content blocks into the first one, which gets all blocks.

    A message with thinking must begin with thinking. So the second message's thinking moves to the
    start, unless the first message has thinking itself.
    """
    first, second = parts_of(before["content"]), parts_of(after["content"])
    thinking = [] if any(map(_is_thinking, first)) else list(takewhile(_is_thinking, second))
    return {**before, "content": [*thinking, *first, *second[len(thinking) :]]}


def _is_thinking(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") in _THINKING


def _place_system_messages(items: Sequence[NumberedItem]) -> list[NumberedItem]:
    """Return the items with each system message at a place that the API accepts.

    The API accepts a system message between a user's and the model's message, and at the end. If
    the model's message after a system message is omitted, move the system message to the next place
    that is accepted.
    """
    ordered: list[NumberedItem] = []
    # The system messages that wait for the next accepted place.
    system_messages: list[NumberedItem] = []
    last_role = None
    for number, item in items:
        role = _role(item)
        if role == "system":
            system_messages.append((number, item))
            continue
        if role == "assistant" and last_role == "user":
            ordered += system_messages
            system_messages = []
        ordered.append((number, item))
        last_role = role
    return ordered + system_messages


def _shown_item(
    item: Json, readings: Sequence[_BlockReading], parts: PartsByMessage
) -> Json | None:
    """Return the message with only the blocks that the plan shows.

    `readings` says how each block was read, and `parts` what is shown of each message. Return None
    if nothing but thinking remains, and `item` itself if all its blocks are shown unchanged. If an
    omitted call has a provider's signature, the first remaining call gets it, because Gemini
    refuses a first call without a signature.
    """
    content = item["content"]
    # If the content is a plain text, the item is one message. The substitute "" omits it.
    if isinstance(content, str):
        part = parts[readings[0].message]
        if not part.is_shown or part.text == "":
            return None
        return item if part.text is None else {**item, "content": part.text}
    # Collect the shown blocks, with their texts replaced or cut. Several text blocks may be of one
    # message. Its substitute text replaces them all, but a `CutText` cuts each of them.
    blocks: list[Any] = []
    substituted: set[int] = set()  # messages whose substitute text is already in a block
    cut = _cut_blocks(content, readings, parts)
    for number, (block, reading) in enumerate(zip(content, readings, strict=True)):
        part = parts[reading.message]
        shown_block = (
            cut[number] if number in cut else _shown_block(block, reading, part, substituted)
        )
        if shown_block is not OMITTED:
            blocks.append(shown_block)
    # If no block has changed, return the agent's own object.
    if len(blocks) == len(content) and all(a is b for a, b in zip(blocks, content, strict=True)):
        return item
    blocks = _with_signature(blocks, content)
    # The API refuses a message that ends with thinking.
    while blocks and _kind(blocks[-1]) == "thinking":
        blocks.pop()
    return {**item, "content": blocks} if blocks else None


def _cut_blocks(
    content: Sequence[Any], readings: Sequence[_BlockReading], parts: PartsByMessage
) -> dict[int, Any]:
    """Cut the text blocks of the messages whose substitute text is a `CutText`.

    Its blocks are cut to the size of the `CutText`, and not replaced by one text. `content` are the
    blocks of an item. Return a dictionary that maps a block's number in `content` to the cut block.
    """
    blocks: dict[int, Any] = {}
    for message in {reading.message for reading in readings}:
        text = parts[message].text
        if not (parts[message].is_shown and isinstance(text, CutText)):
            continue
        numbers = [
            number
            for number, reading in enumerate(readings)
            if reading.message == message and reading.kind == "text"
        ]
        blocks |= zip(numbers, text.cut_parts([content[n] for n in numbers]), strict=True)
    return blocks


def _shown_block(
    block: Any, reading: _BlockReading, part: ShownParts, substituted: set[int]
) -> Any:
    """Return the block as the plan shows it, or OMITTED.

    `part` says what the plan shows of the block's message. If the block's message has a substitute
    text, the message's first text block gets this text, and its other text blocks are omitted.
    `substituted` are the messages whose first text block got the text already; this function adds
    the message to it.
    """
    # A plan does not decide on these blocks.
    if reading.kind in ("thinking", "other"):
        return block
    if reading.kind == "call":
        if reading.call not in part.calls:
            return OMITTED
        arguments = part.calls[reading.call]
        return block if arguments is None else {**block, "input": json.loads(arguments)}
    if not part.is_shown:
        return OMITTED
    text = part.text
    if text is None or reading.kind == "media":
        return block
    # Replace the text of a result, or of the message's text blocks.
    if reading.kind == "provider_result" and block["type"] != "mcp_tool_result":
        return block  # The provider accepts the results of its own tools only unchanged.
    if reading.kind in ("result", "provider_result"):
        return {**block, "content": with_text(block.get("content"), text)}
    if not text or reading.message in substituted:
        return OMITTED
    substituted.add(reading.message)
    return part_with(block, text)


def _can_carry_mark(reading: _BlockReading, part: ShownParts) -> bool:
    """Return whether a block is in the prompt in a form that can carry a cache mark."""
    if reading.kind == "call":
        return reading.call in part.calls
    if reading.kind == "text":
        return part.is_shown and part.text is None
    return reading.kind in ("result", "media") and part.is_shown


def _without_citations(item: Any) -> Any:
    """Return a message without citations of search results, which may be omitted from the prompt.

    Only the model's messages have citations. Return any other message unchanged.
    """
    if _role(item) != "assistant" or not isinstance(item.get("content"), list):
        return item
    blocks = [
        {key: block[key] for key in block if key != "citations"} if _cites(block) else block
        for block in item["content"]
    ]
    return {**item, "content": blocks}


def _cites(block: Any) -> bool:
    """Return whether a block cites a search result."""
    citations = block.get("citations") if isinstance(block, Mapping) else None
    return isinstance(citations, list) and any(
        isinstance(citation, Mapping) and citation.get("type") in _SEARCH_CITATIONS
        for citation in citations
    )


def _blocks(item: Any) -> Sequence[Any] | None:
    """Return the content of a user's or the model's message as blocks; None for other items."""
    if not isinstance(item, dict) or item.get("role") not in ("user", "assistant"):
        return None
    content = item.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else None


def _role(item: Any) -> Any:
    return item.get("role") if isinstance(item, Mapping) else None


def _kind(block: Any) -> str:
    """Return the kind of a block: one of the kinds that `_BlockReading` lists."""
    if not isinstance(block, Mapping):
        return "other"
    # The type decides, unless a field that is needed is missing.
    kind = block.get("type")
    if kind in _CALLS and isinstance(block.get("name"), str):
        # A `tool_use` without an id is paired with its result by order.
        has_no_id = kind == "tool_use" and not block.get("id")
        return "call" if has_no_id or _is_id(block.get("id")) else "other"
    if kind == "tool_result":
        return "result"
    if isinstance(kind, str) and kind.endswith("tool_result") and _is_id(block.get("tool_use_id")):
        return "provider_result"
    if kind in _THINKING:
        return "thinking"
    if holds_text(block):
        return "text"
    return "media" if isinstance(kind, str) and kind in MEDIA else "other"


def _with_signature(blocks: list[Any], content: Sequence[Any]) -> list[Any]:
    """Return a message's remaining `blocks`, of which the first call has a provider's signature.

    Gemini signs only the first call of a message, and checks it. If that call is omitted, the first
    remaining call gets its signature (`move_signature`). `content` has all blocks of the message. A
    remaining call may be a copy with other arguments, so it is found among all calls by its id.
    """
    # Find all calls, the positions of the remaining ones in `blocks`, and their numbers among all.
    calls = [block for block in content if _kind(block) == "call"]
    positions = [position for position, block in enumerate(blocks) if _kind(block) == "call"]
    remaining = [blocks[position] for position in positions]
    numbers = [n for n, call in enumerate(calls) if any(_is_same(call, c) for c in remaining)]
    signed_calls = move_signature(calls, dict(zip(numbers, remaining, strict=False)))
    for position, number in zip(positions, numbers, strict=False):
        blocks[position] = signed_calls[number]
    return blocks


def _caller_id(block: Any) -> str:
    """Return the id of the code execution that made a call; empty if the model made it."""
    caller = block.get("caller") if isinstance(block, Mapping) else None
    tool_id = caller.get("tool_id") if isinstance(caller, Mapping) else None
    return tool_id if isinstance(tool_id, str) else ""


def _is_same(call: Json, other: Json) -> bool:
    """Return whether both blocks are the same call, even if their arguments differ."""
    return call is other or (_is_id(call.get("id")) and call.get("id") == other.get("id"))


def _ids_in(blocks: Sequence[Any]) -> list[object]:
    """Return the ids of the results among these blocks."""
    return [block.get("tool_use_id") for block in blocks if isinstance(block, Mapping)]


def _call(block: Mapping[str, Any], default_id: str) -> Json:
    """Return the canonical call of a block. It has `default_id` if the block has no id."""
    arguments = json.dumps(block.get("input"), ensure_ascii=False)
    function = {"name": clean_text(block["name"]), "arguments": clean_text(arguments)}
    call_id = clean_text(block.get("id") or default_id)
    return {"id": call_id, "type": "function", "function": function}


def _is_id(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _text_of(block: Any) -> str:
    text = block.get("text") if isinstance(block, Mapping) else None
    return text if isinstance(text, str) else ""

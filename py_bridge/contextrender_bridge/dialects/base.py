"""The base of all request formats: reading a request's history, and applying a plan to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.contents import canonical_content, clean_text
from contextrender_bridge.dialects.message_plan import MessagePlan, Pairs

Body = Mapping[str, Any]
NO_ITEM = -1
"""The item number of messages that come from other parts of a body."""
NumberedItem = tuple[int, Any]
"""An item after its number among the request's items."""
VOLATILE = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
USUAL_MINUTES = 5.0
DAY_MINUTES = 1_000.0
"""The largest value of the parameter `cache_ttl_minutes`, two thirds of a day."""


class Transcript(ABC):
    """The history of one request, with its canonical `messages` in order.

    The first `carried` messages are an earlier request's, and were not read again. `alternates` is
    true if many providers of the format refuse two messages of the model in a row.
    """

    alternates = True

    def __init__(
        self, body: Body, key: str, before: Transcript | None, head: object = None
    ) -> None:
        """Take over the messages of `before`; the `_new_items` after them are still to be read.

        The reading of each item depends on `head`, which both requests have in common.
        """
        self.head = head
        self._body = body
        items = body.get(key)
        self._items: Sequence[Any] = items if isinstance(items, list) else []
        self._end = history_end(self._items)
        self.stable_count = self._end
        """The number of first items that are read alike, whatever items follow."""
        self._pairs: Pairs | None = None
        self._pairs_before = before.pairs if before else None
        self.messages: list[Json] = list(before.messages) if before else []
        self.carried = len(self.messages)
        self._read_count = before.stable_count if before else 0
        self._new_items = self._items[self._read_count : self._end]
        self._item_of: list[int] = list(before._item_of) if before else []
        self._stays: list[int] = list(before._stays) if before else []
        self._results: dict[int, Any] = dict(before._results) if before else {}

    @abstractmethod
    def apply(self, plan: MessagePlan) -> Json:
        """Return the body with what `plan` shows; equal to the original if it omits nothing."""

    @abstractmethod
    def result(self, message: int) -> Any:
        """Return the original content of the tool result that is canonical message `message`."""

    def _add_result(self, item: Any, call_id: str, content: Any) -> int:
        """Append the message of a result, and return its position.

        `item` is the item of the result, or the part of an item.
        """
        place = len(self.messages)
        self._results[place] = item
        fields = {"tool_call_id": clean_text(call_id), "content": canonical_content(content)}
        self.messages.append({"role": "tool", **fields})
        return place

    def _read_item(self, index: int, *, stays: bool) -> None:
        """Note that the new messages come from that item, and whether part of it always `stays`."""
        self._item_of += [index] * (len(self.messages) - len(self._item_of))
        if stays:
            self._stays.append(index)

    @property
    def newest_answer(self) -> range:
        """The canonical messages of the model's newest item, which is always sent unchanged."""
        end = len(self.messages)
        while end and self.messages[end - 1]["role"] != "assistant":
            end -= 1
        start = max(end - 1, 0)
        while start and end and self._belongs_to_answer(start - 1, end - 1):
            start -= 1
        return range(start, end)

    def _belongs_to_answer(self, message: int, last: int) -> bool:
        """Return whether a message comes from the same item as the model's `last` message."""
        return self._item_of[message] == self._item_of[last] != NO_ITEM

    def plan(
        self, rows: Iterable[Mapping[str, Any]], breakpoints: Iterable[int] = ()
    ) -> MessagePlan:
        """Return the plan of a render reply, with the model's newest message unchanged."""
        plan = MessagePlan(self.messages, rows, breakpoints, self.pairs)
        plan.show_newest(self.newest_answer, alternates=self.alternates)
        return plan

    def _apart(self, places: Sequence[int | None]) -> set[int]:
        """Return the items that are merged with no other: unread ones and the newest answer."""
        newest = self.newest_answer
        apart = {index for index, place in enumerate(places) if place is None}
        return apart | {self._item_of[message] for message in newest}

    def unread_items(self) -> list[Any]:
        """Return the messages, calls and results that cannot be read, and so are always sent."""
        read = set(self._item_of)
        unread = [self._items[n] for n in self._stays if n not in read and n != NO_ITEM]
        return [item for item in unread if _is_of_history(item) and not is_volatile(item)]

    def _remaining_items(self, plan: MessagePlan) -> list[int]:
        """Return the items that the prompt may have a part of, in order: few of a long history."""
        items = {*self._stays, *range(self._end, len(self._items))}
        ends = [*self._item_of[1:], self._end]
        for message in plan.remaining_messages():
            items.add(first := self._item_of[message])
            if ends[message] > first + 1:
                items.update(range(first, ends[message]))
        return sorted(items - {NO_ITEM})

    @property
    def cache_ttl_minutes(self) -> float:
        """The minutes for which the provider keeps the prompt in its cache.

        OpenAI keeps it for at least 5 minutes, and for a day if the request says so.
        """
        retention = self._body.get("prompt_cache_retention")
        return DAY_MINUTES if retention == "24h" else USUAL_MINUTES

    @property
    def pairs(self) -> Pairs:
        """The pairs of calls and results in the history."""
        if self._pairs is None:
            self._pairs = Pairs(self.messages, self._pairs_before)
        return self._pairs


def _is_of_history(item: Any) -> bool:
    """Return whether an item has the form of a message, a call or a result."""
    if not isinstance(item, Mapping):
        return False
    kind = str(item.get("type"))
    is_call = kind.endswith(("_call", "_call_output"))
    return is_call or item.get("role") in ("assistant", "user", "tool", "function")


def history_end(items: Sequence[Any]) -> int:
    """Return the number of items before those that a runtime appends anew to each request."""
    end = len(items)
    while end and is_volatile(items[end - 1]):
        end -= 1
    return end


def is_volatile(item: Any) -> bool:
    """Return whether a runtime puts a message anew into each request, at any position."""
    if not isinstance(item, Mapping) or item.get("role") != "user":
        return False
    content = item.get("content")
    if isinstance(content, list):
        content = content[0] if content else None
        if isinstance(content, Mapping):
            content = content.get("text")
    return isinstance(content, str) and content.lstrip()[: len(VOLATILE)] == VOLATILE


R = TypeVar("R", bound=Transcript)


def reusable(before: Transcript | None, kind: type[R], head: object = None) -> R | None:
    """Return the earlier transcript if reading can continue after it, None otherwise."""
    if isinstance(before, kind) and before.stable_count and before.head == head:
        return before
    return None


@dataclass(frozen=True)
class Dialect:
    """A request format: `key` is the body's field that has the items.

    `read` returns the transcript of a request. It never raises: items that it cannot read stay as
    they are. Its optional second argument is a transcript of this format with whose stable items
    the request begins. They are not read again, unless something before them differs.
    """

    key: str
    read: Callable[..., Transcript]


def merge_neighbours(
    items: Iterable[NumberedItem],
    join: Callable[[Json, Json], Json | None],
    apart: Collection[int],
) -> list[Any]:
    """Return the items, with messages of the model merged that became neighbours.

    They become neighbours when a result between them is omitted, and some providers and chat
    templates refuse two in a row. Messages that the agent sent side by side, and the items `apart`,
    stay as they are. `join` returns the merged message, or None if it cannot merge two.
    """
    merged_items: list[Any] = []
    last_number = -1
    for number, item in items:
        previous: Any = merged_items[-1] if merged_items else None
        became_neighbours = number > last_number + 1 and _is_models(previous) and _is_models(item)
        may_merge = became_neighbours and number not in apart and last_number not in apart
        merged = join(previous, item) if may_merge else None
        if merged is None:
            merged_items.append(item)
        else:
            merged_items[-1] = merged
        last_number = number
    return merged_items


def join_chat(before: Json, after: Json) -> Json | None:
    """Return two chat messages as one: the second with both texts; None if the first has calls.

    The other fields of the first, its reasoning and signatures, belong to an omitted step.
    """
    if before.get("tool_calls") or before.get("function_call"):
        return None
    first, second = before.get("content"), after.get("content")
    if isinstance(first, list) or isinstance(second, list):
        content: Any = [*_parts(first), *_parts(second)]
    else:
        content = "\n\n".join(text for text in (first, second) if text) or None
    return {**after, "content": content}


def join_blocks(before: Json, after: Json) -> Json | None:
    """Return two messages of content blocks as one."""
    return {**before, "content": [*_parts(before["content"]), *_parts(after["content"])]}


def _parts(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _is_models(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "assistant"

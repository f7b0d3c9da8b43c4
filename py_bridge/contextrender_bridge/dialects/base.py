"""What every dialect is: a way to read a request body, and to cut it down by a plan."""

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
"""Of messages that come from other parts of a body."""
Placed = tuple[int, Any]
"""An item, and its place among the request's."""
VOLATILE = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
USUAL_MINUTES = 5.0
DAY_MINUTES = 1_000.0
"""The most that the parameter `cache_ttl_minutes` takes, two thirds of a day."""


class Transcript(ABC):
    """One request's history. `messages` are the canonical ones, in order.

    The first `carried` of them are an earlier request's, and were not read again. `alternates`:
    many providers of the dialect refuse two messages of the model's in a row.
    """

    alternates = True

    def __init__(
        self, body: Body, key: str, before: Transcript | None, head: object = None
    ) -> None:
        """To read are the `_fresh` items, after those of `before`, whose messages are there.

        `head` is what the reading of all items depends on.
        """
        self.head = head
        self._body = body
        items = body.get(key)
        self._items: Sequence[Any] = items if isinstance(items, list) else []
        self._end = history_end(self._items)
        self.settled = self._end
        """How many items no later one changes the reading of."""
        self._pairs: Pairs | None = None
        self._pairs_before = before.pairs if before else None
        self.messages: list[Json] = list(before.messages) if before else []
        self.carried = len(self.messages)
        self._known = before.settled if before else 0
        self._fresh = self._items[self._known : self._end]
        self._item_of: list[int] = list(before._item_of) if before else []
        self._stays: list[int] = list(before._stays) if before else []
        self._results: dict[int, Any] = dict(before._results) if before else {}

    @abstractmethod
    def apply(self, plan: MessagePlan) -> Json:
        """The body with only what `plan` shows; equal to the original where that is everything."""

    @abstractmethod
    def result(self, message: int) -> Any:
        """The original content of the tool result that is canonical message `message`."""

    def _add_result(self, item: Any, call_id: str, content: Any) -> int:
        """A result, which that item, or a part of it, is; its message."""
        place = len(self.messages)
        self._results[place] = item
        told = {"tool_call_id": clean_text(call_id), "content": canonical_content(content)}
        self.messages.append({"role": "tool", **told})
        return place

    def _read_item(self, index: int, *, stays: bool) -> None:
        """The messages that are new come from that item; of some, something always `stays`."""
        self._item_of += [index] * (len(self.messages) - len(self._item_of))
        if stays:
            self._stays.append(index)

    @property
    def newest_answer(self) -> range:
        """The canonical messages of the model's newest item: it is sent as it came."""
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
        self, shown: Iterable[Mapping[str, Any]], breakpoints: Iterable[int] = ()
    ) -> MessagePlan:
        """Return the plan of a render reply, with the model's newest message as it came."""
        plan = MessagePlan(self.messages, shown, breakpoints, self.pairs)
        plan.show_newest(self.newest_answer, alternates=self.alternates)
        return plan

    def _apart(self, places: Sequence[int | None]) -> set[int]:
        """Return the items that nothing is joined to: those not understood, and the newest
        answer."""
        newest = self.newest_answer
        apart = {index for index, place in enumerate(places) if place is None}
        return apart | {self._item_of[message] for message in newest}

    def unread_items(self) -> list[Any]:
        """Return the messages, calls and results that are not understood: they are always sent."""
        read = set(self._item_of)
        unread = [self._items[n] for n in self._stays if n not in read and n != NO_ITEM]
        return [item for item in unread if _is_of_history(item) and not is_volatile(item)]

    def _staying(self, plan: MessagePlan) -> list[int]:
        """The items of which anything may stay, in order: of a long history few."""
        found = {*self._stays, *range(self._end, len(self._items))}
        ends = [*self._item_of[1:], self._end]
        for message in plan.staying():
            found.add(first := self._item_of[message])
            if ends[message] > first + 1:
                found.update(range(first, ends[message]))
        return sorted(found - {NO_ITEM})

    @property
    def cache_ttl_minutes(self) -> float:
        """How long the provider keeps the prompt in its cache: OpenAI for 5 minutes at least, and a
        day where that is asked for."""
        asked = self._body.get("prompt_cache_retention")
        return DAY_MINUTES if asked == "24h" else USUAL_MINUTES

    @property
    def pairs(self) -> Pairs:
        """Which call each result answers."""
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
    """How many items come before the trailing ones that a runtime appends anew to each request."""
    end = len(items)
    while end and is_volatile(items[end - 1]):
        end -= 1
    return end


def is_volatile(item: Any) -> bool:
    """Whether a runtime puts a message anew into each request, wherever it then is."""
    if not isinstance(item, Mapping) or item.get("role") != "user":
        return False
    content = item.get("content")
    if isinstance(content, list):
        content = content[0] if content else None
        if isinstance(content, Mapping):
            content = content.get("text")
    return isinstance(content, str) and content.lstrip()[: len(VOLATILE)] == VOLATILE


R = TypeVar("R", bound=Transcript)


def usable(before: Transcript | None, kind: type[R], head: object = None) -> R | None:
    """`before`, where reading can go on behind it."""
    if isinstance(before, kind) and before.settled and before.head == head:
        return before
    return None


@dataclass(frozen=True)
class Dialect:
    """A request format: `key` is the body's field that has the items.

    `read` gives the transcript of a request. It never raises: what is not understood is only kept.
    Its second argument, if any, is this dialect's transcript of an earlier request, whose settled
    items this one begins with: they are not read again, unless what comes before them differs.
    """

    key: str
    read: Callable[..., Transcript]


def merged(
    items: Iterable[Placed], join: Callable[[Json, Json], Json | None], apart: Collection[int]
) -> list[Any]:
    """Return the items, those merged that `join` can; it returns None for two that stay apart.

    Two messages of the model's are neighbours after a result between them was omitted. The agent
    never sent them so: some providers and chat templates refuse two in a row. Those that the agent
    sent side by side stay as they are, and so do the items `apart`.
    """
    left: list[Any] = []
    last = -1
    for place, item in items:
        near = left and place > last + 1 and _is_models(left[-1]) and _is_models(item)
        near = near and place not in apart and last not in apart
        one = join(left[-1], item) if near else None
        if one is None:
            left.append(item)
        else:
            left[-1] = one
        last = place
    return left


def join_chat(before: Json, after: Json) -> Json | None:
    """Return two chat messages as one: the latter's, with both texts.

    What else the former has is of a step that was omitted: its reasoning, and signatures of that.
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
    """Two messages of content blocks as one."""
    return {**before, "content": [*_parts(before["content"]), *_parts(after["content"])]}


def _parts(content: Any) -> list[Any]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _is_models(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "assistant"

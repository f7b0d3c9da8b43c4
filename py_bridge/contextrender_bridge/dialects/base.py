"""The base of all request formats: reading a request's history, and applying a plan to it.

Long because all formats read, plan and merge items alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeVar

from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.contents import canonical_content, clean_text
from contextrender_bridge.dialects.message_plan import CallPairs, MessagePlan

Body = Mapping[str, Any]
NumberedItem = tuple[int, Any]
"""The number of an item in the request, and the item."""
NO_ITEM = -1
"""The item number of messages that come from another field, such as `system`."""
VOLATILE = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
DEFAULT_CACHE_MINUTES = 5.0
MAX_CACHE_MINUTES = 1_000.0
"""The largest value of the parameter `cache_ttl_minutes`, two thirds of a day."""


class Transcript(ABC):
    """The history of one request, with its canonical `messages` in order.

    The first `reused_count` messages come from the transcript of an earlier request. `alternates`
    is true for formats in which many providers refuse two consecutive messages of the model.
    """

    alternates = True

    def __init__(
        self, body: Body, key: str, previous: Transcript | None, other_fields: object = None
    ) -> None:
        """Copy what `previous`, the transcript of an earlier request, has read, if it is given.

        The subclass must then read the remaining items, `_new_items`. `key` names the body's field
        with the items. `other_fields` are the values of further fields that the subclass reads into
        messages, such as `system`. The caller must have checked that `previous` has equal ones.
        """
        self.other_fields = other_fields
        self._body = body
        items = body.get(key)
        self._items: Sequence[Any] = items if isinstance(items, list) else []
        self._end = history_end(self._items)
        self.stable_count = self._end
        """The number of first items whose messages do not change when later items are added."""
        self._call_pairs: CallPairs | None = None
        self._previous_pairs = previous.call_pairs if previous else None
        # All messages of `previous` come from its stable items, so none is read again.
        self.messages: list[Json] = list(previous.messages) if previous else []
        self.reused_count = len(self.messages)
        self._read_count = previous.stable_count if previous else 0
        self._new_items = self._items[self._read_count : self._end]
        # By message position: the number of the item that the message begins with.
        self._item_of: list[int] = list(previous._item_of) if previous else []
        # The numbers of items that every prompt has, such as items that cannot be read.
        self._always_sent_items: list[int] = list(previous._always_sent_items) if previous else []
        # By the position of a result's message: the item or content block it was read from.
        self._results: dict[int, Any] = dict(previous._results) if previous else {}

    @abstractmethod
    def apply(self, plan: MessagePlan) -> Json:
        """Return the body with only the items that the plan shows.

        Return a body equal to the original one if the plan omits nothing.
        """

    @abstractmethod
    def result(self, message: int) -> Any:
        """Return the original content of the tool result at position `message`."""

    def _add_result(self, item: Any, call_id: str, content: Any) -> int:
        """Append the canonical message of a result, and return its position.

        `item` is the item or block of the request that contains the result.
        """
        position = len(self.messages)
        self._results[position] = item
        fields = {"tool_call_id": clean_text(call_id), "content": canonical_content(content)}
        self.messages.append({"role": "tool", **fields})
        return position

    def _finish_item(self, index: int, *, is_always_sent: bool) -> None:
        """Record that item `index` is read, and that the newest messages come from it.

        These are the messages that were added since the last call of this method. If
        `is_always_sent` is true, every prompt has the item, at least in part.
        """
        self._item_of += [index] * (len(self.messages) - len(self._item_of))
        if is_always_sent:
            self._always_sent_items.append(index)

    @property
    def newest_answer(self) -> range:
        """The positions of the messages of the model's newest answer, empty if there is none.

        This answer is always sent unchanged.
        """
        # The answer ends with the model's last message, and may begin some messages before it.
        end = len(self.messages)
        while end and self.messages[end - 1]["role"] != "assistant":
            end -= 1
        if not end:
            return range(0)
        start = end - 1
        while start and self._belongs_to_answer(start - 1, end - 1):
            start -= 1
        return range(start, end)

    def _belongs_to_answer(self, message: int, last: int) -> bool:
        """Return whether a message is in the same answer as the `last` message of the answer.

        Both are positions. In most formats, an answer is the messages that come from one item.
        """
        return self._item_of[message] == self._item_of[last] != NO_ITEM

    def plan(
        self, rows: Iterable[Mapping[str, Any]], breakpoints: Iterable[int] = ()
    ) -> MessagePlan:
        """Return the plan of a render reply, which also shows the model's newest answer unchanged.

        `rows` are the rows of the reply's plan, and `breakpoints` its message positions for cache
        marks. If the format `alternates`, two messages of the model must not be neighbours, so the
        plan also shows a result between the newest answer and the model's message before it.
        """
        plan = MessagePlan(self.messages, rows, breakpoints, self.call_pairs)
        plan.show_newest(
            self.newest_answer, alternates=self.alternates, answer_ends=self._answer_ends()
        )
        return plan

    def _answer_ends(self) -> dict[int, int]:
        """Return a dictionary that maps each message of an answer to the answer's last message.

        Both are positions. Answers of a single message are left out. An answer has several messages
        if the provider ran tools in it. In most formats no answer has.
        """
        return {}

    def _merge_neighbours(
        self,
        items: Iterable[NumberedItem],
        join: Callable[[Json, Json], Json | None],
        unread: Set[int] = frozenset(),
    ) -> list[Any]:
        """Return the items, after merging messages of the model that have become neighbours.

        Two messages become neighbours if all items between them are omitted. Some providers and
        chat templates refuse two messages of the model in a row. Messages that the agent sent side
        by side are not merged, and neither are the items with the numbers `unread`. The newest
        answer is not merged, because some providers refuse a changed one. `join` merges two
        messages; it returns None if it cannot.
        """
        unmergeable = unread | {self._item_of[message] for message in self.newest_answer}
        merged_items: list[Any] = []
        last_number = -1
        for number, item in items:
            previous: Any = merged_items[-1] if merged_items else None
            became_neighbours = number > last_number + 1  # a number is missing
            are_mergeable = number not in unmergeable and last_number not in unmergeable
            may_merge = became_neighbours and are_mergeable
            # Merge the item into the message before it, or add it.
            merged = None
            if may_merge and _is_of_model(previous) and _is_of_model(item):
                merged = join(previous, item)
            if merged is None:
                merged_items.append(item)
            else:
                merged_items[-1] = merged
            last_number = number
        return merged_items

    def unread_items(self) -> list[Any]:
        """Return the messages, calls and results that this class could not read.

        No canonical message comes from them, so the service does not know them, and every prompt
        has them. Leave out other kinds of items, and volatile items, which are not read on purpose.
        """
        # `_item_of` has the numbers of the items that were read.
        read_numbers = {*self._item_of, NO_ITEM}
        unread_numbers = [n for n in self._always_sent_items if n not in read_numbers]
        unread = [self._items[n] for n in unread_numbers]
        return [item for item in unread if _is_of_history(item) and not is_volatile(item)]

    def _remaining_items(self, plan: MessagePlan) -> list[int]:
        """Return the numbers of the items that are in the prompt, at least in part, in order."""
        # Some items are always sent, among them the volatile ones after the history.
        items = {*self._always_sent_items, *range(self._end, len(self._items))}
        ends = [*self._item_of[1:], self._end]
        for message in plan.remaining_messages():
            # A message may come from several items: from its first one up to the first one of the
            # next message.
            first = self._item_of[message]
            items.update(range(first, max(ends[message], first + 1)))
        return sorted(items - {NO_ITEM})

    @property
    def cache_ttl_minutes(self) -> float:
        """The minutes for which the provider keeps the prompt in its cache.

        OpenAI keeps it for at least 5 minutes. If the request asks for 24 hours, this is
        `MAX_CACHE_MINUTES`.
        """
        retention = self._body.get("prompt_cache_retention")
        return MAX_CACHE_MINUTES if retention == "24h" else DEFAULT_CACHE_MINUTES

    @property
    def call_pairs(self) -> CallPairs:
        """The pairs of tool calls and their results, which are made at the first access."""
        if self._call_pairs is None:
            self._call_pairs = CallPairs(self.messages, self._previous_pairs)
        return self._call_pairs


def _is_of_model(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "assistant"


def _is_of_history(item: Any) -> bool:
    """Return whether an item has the form of a message, a call or a result."""
    if not isinstance(item, Mapping):
        return False
    kind = str(item.get("type"))
    is_call = kind.endswith(("_call", "_call_output"))
    return is_call or item.get("role") in ("assistant", "user", "tool", "function")


def history_end(items: Sequence[Any]) -> int:
    """Return the number of items without the volatile ones at the end."""
    end = len(items)
    while end and is_volatile(items[end - 1]):
        end -= 1
    return end


def is_volatile(item: Any) -> bool:
    """Return whether a message is the context that OpenClaw inserts into every request.

    It is a user's message whose text begins with the mark `VOLATILE`.
    """
    if not isinstance(item, Mapping) or item.get("role") != "user":
        return False
    content = item.get("content")
    if isinstance(content, list):
        content = content[0] if content else None
        if isinstance(content, Mapping):
            content = content.get("text")
    return isinstance(content, str) and content.lstrip()[: len(VOLATILE)] == VOLATILE


R = TypeVar("R", bound=Transcript)


def reusable_transcript(
    previous: Transcript | None, kind: type[R], other_fields: object = None
) -> R | None:
    """Return `previous` if reading can continue after its stable items, None otherwise.

    It must be of the class `kind` and have equal `other_fields` and at least one stable item.
    """
    if not isinstance(previous, kind) or not previous.stable_count:
        return None
    return previous if previous.other_fields == other_fields else None


@dataclass(frozen=True)
class Dialect:
    """A request format: `key` is the body's field with the items.

    `read(body)` returns the transcript of a request. It never raises; items that it cannot read are
    always sent. `read(body, previous)` does not read again the stable items of `previous`, the
    transcript of an earlier request. The body must begin with these items.
    """

    key: str
    read: Callable[..., Transcript]

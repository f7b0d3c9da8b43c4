"""What every dialect is: a way to read a request body, and to cut it down by a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.contents import history_end
from contextrender_bridge.dialects.message_plan import MessagePlan, Pairs

Body = Mapping[str, Any]
NO_ITEM = -1
"""Of messages that come from other parts of a body."""


class Transcript(Protocol):
    """One request's history. `messages` are the canonical ones, in order.

    The first `carried` of them are an earlier request's, and were not read again. No later item
    changes what the first `settled` ones were read as.
    """

    messages: list[Json]
    carried: int

    @property
    def settled(self) -> int:
        """How many of the request's items that is."""

    @property
    def pairs(self) -> Pairs:
        """Which call each result answers."""

    def apply(self, plan: MessagePlan) -> Json:
        """The body with only what `plan` shows; equal to the original where that is everything."""

    def result(self, message: int) -> Any:
        """The original content of the tool result that is canonical message `message`."""


class Dialect(Protocol):
    """A request format."""

    @property
    def key(self) -> str:
        """The body's field that has the items."""

    def read(self, body: Body, before: Any = None) -> Transcript:
        """The transcript of a request. Never raises: what is not understood is only kept.

        `before` is this dialect's transcript of an earlier one, whose settled items this one begins
        with: they are not read again, unless what comes before them differs.
        """


class Read:
    """A request's items; the base of every transcript."""

    def __init__(self, body: Body, key: str, before: Read | None, head: object = None) -> None:
        """To read are the `_fresh` items, after those of `before`, whose messages are there.

        `head` is what the reading of all items depends on.
        """
        self.head = head
        self._body = body
        items = body.get(key)
        self._items: Sequence[Any] = items if isinstance(items, list) else []
        self._end = history_end(self._items)
        self._pairs: Pairs | None = None
        self._pairs_before = before.pairs if before else None
        self.messages: list[Json] = list(before.messages) if before else []
        self.carried = len(self.messages)
        self._known = before.settled if before else 0
        self._fresh = self._items[self._known : self._end]
        self._item_of: list[int] = list(before._item_of) if before else []
        self._stays: list[int] = list(before._stays) if before else []

    def _read_item(self, index: int, *, stays: bool) -> None:
        """The messages that are new come from that item; of some, something always `stays`."""
        self._item_of += [index] * (len(self.messages) - len(self._item_of))
        if stays:
            self._stays.append(index)

    def _staying(self, plan: MessagePlan) -> list[int]:
        """The items of which anything may stay, in order: of a long history few."""
        found = {*self._stays, *range(self._end, len(self._items))}
        for message in plan.staying():
            first = self._item_of[message]
            behind = self._item_of[message + 1 : message + 2] or [self._end]
            found.update(range(first, max(first + 1, behind[0])))
        return sorted(found - {NO_ITEM})

    @property
    def settled(self) -> int:
        """As `Transcript` has it."""
        return self._end

    @property
    def pairs(self) -> Pairs:
        """As `Transcript` has it."""
        if self._pairs is None:
            self._pairs = Pairs(self.messages, self._pairs_before)
        return self._pairs


R = TypeVar("R", bound=Read)


def usable(before: Transcript | None, kind: type[R], head: object = None) -> R | None:
    """`before`, where reading can go on behind it."""
    if isinstance(before, kind) and before.settled and before.head == head:
        return before
    return None

"""Which tool calls of a model's reply are recalls, and the reply without them, in any dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.contents import plain_text
from contextrender_bridge.proxy.events import Event

NAME = "contextrender_recall"
DESCRIPTION = (
    "Brings back complete results of earlier tool calls that are no longer in this conversation, "
    "or of which only an excerpt is. Give `query`, words or values the result contains, or "
    "`results`, the numbers of results as an excerpt names them."
)
PARAMETERS: Json = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Words or values to look for."},
        "results": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "Numbers of results.",
        },
    },
}


@dataclass(frozen=True)
class Recall:
    """One call of the tool: its id and its arguments as JSON text."""

    id: str
    arguments: str


@dataclass(frozen=True)
class Answer:
    """What the tool says: content as the dialect's results have it."""

    recall: Recall
    content: Any


@dataclass
class Turn:
    """A model's reply: our calls, whether there are others, and all it said, for the request."""

    ours: list[Recall] = field(default_factory=list)
    others: bool = False
    said: list[Json] = field(default_factory=list)

    @property
    def only_recalls(self) -> bool:
        """Whether the model called our tool and no other."""
        return bool(self.ours) and not self.others


class Format(ABC):
    """A dialect's way to offer the tool, and to tell what a reply makes of it."""

    tool: ClassVar[Json]

    def offers(self, body: Mapping[str, Any]) -> bool:
        """Whether the tool can be put behind a request's own."""
        return isinstance(body.get("tools"), (list, type(None)))

    def offered(self, body: Mapping[str, Any]) -> Json:
        """The request with the tool, which comes last."""
        return {**body, "tools": [*(body.get("tools") or ()), self.tool]}

    @abstractmethod
    def turn(self, reply: Mapping[str, Any]) -> Turn:
        """What a plain reply is."""

    @abstractmethod
    def without(self, reply: Json) -> Json:
        """A plain reply without our calls."""

    @abstractmethod
    def whole(self, events: Sequence[Json]) -> Json:
        """The plain reply that a stream's events tell, as far as `turn` and its usage need it."""

    @abstractmethod
    def events_without(self, events: Sequence[Event], used: Json) -> Iterator[bytes]:
        """A stream's events without our calls; replies before it have `used` so much."""

    @abstractmethod
    def goes_on(self, body: Json, turn: Turn, answers: Sequence[Answer]) -> Json:
        """The request that asks again, with our calls answered."""

    def content(self, header: str, original: Any) -> Any:
        """A result's original content under a line that says what it is."""
        return f"{header}\n{plain_text(original)}"

    def joined(self, contents: Sequence[Any]) -> Any:
        """Several results as one."""
        return "\n\n".join(contents)


def added(before: Mapping[str, Any], usage: Any) -> Json:
    """The sum of two usages, number by number; what is no number is the latter's."""
    if not isinstance(usage, Mapping):
        return dict(before)
    return {**before, **{name: _sum(before.get(name), usage[name]) for name in usage}}


def moved(index: int, gone: set[int]) -> int:
    """The place of what stood at `index`, with what stood at `gone` left out."""
    return index - sum(1 for place in gone if place < index)


def _sum(before: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return added(before if isinstance(before, Mapping) else {}, value)
    if _is_number(before) and _is_number(value):
        return before + value
    return before if value is None and before is not None else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

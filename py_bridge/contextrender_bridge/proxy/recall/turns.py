"""Which tool calls of a model's reply are recalls, in any dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

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


def has_tool_list(body: Mapping[str, Any]) -> bool:
    """Whether another tool can be put behind a request's own."""
    return isinstance(body.get("tools"), (list, type(None)))


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


@dataclass
class Streamed:
    """What the agent has already got of a streamed reply that goes on in another one.

    `used` is what the replies before used together.
    """

    any: bool = False
    blocks: int = 0
    events: int = 0
    items: list[Json] = field(default_factory=list)
    used: Json = field(default_factory=dict)


class _Held(NamedTuple):
    raw: bytes
    blocks: int
    item: Json | None


class Stream(ABC):
    """Reads one streamed reply; `ready` is what may be sent on.

    Events before the first that says something are held: if our call comes first, the agent never
    sees this reply. Once our call is there, what follows is held until another tool's call or the
    end comes. `final` says that our calls are not answered any more: they are only taken out.
    """

    def __init__(self, sent: Streamed, *, final: bool) -> None:
        """`sent` is shared by the replies of one model call."""
        self.turn = Turn()
        self.sent = sent
        self.ready: list[bytes] = []
        self._goes_before = sent.any
        self._first = sent.blocks
        self._left_out: set[int] = set()
        self._held: list[_Held] = []
        self._open = False
        self._final = final
        self._used: Json = {}

    @abstractmethod
    def read(self, event: Event) -> None:
        """Takes the next event."""

    def end(self) -> None:
        """The stream is over: what is held is sent on, unless another reply takes its place."""
        if self.goes_on:
            self.sent.used = added(self.sent.used, self._used)
        else:
            self.release()

    def uses(self, usage: Any) -> Json:
        """Takes the reply's usage so far; gives what the agent is told, that of all replies."""
        self._used = {**self._used, **usage} if isinstance(usage, Mapping) else self._used
        return added(self.sent.used, self._used)

    @property
    def goes_on(self) -> bool:
        """Whether our calls, and no others, are to be answered and the model asked again."""
        return bool(self.turn.ours) and not self.turn.others and not self._final

    def put(self, raw: bytes, blocks: int = 0, item: Json | None = None) -> None:
        """Sends an event on, now or when it is known whether it is to be sent at all.

        The agent then has the reply's first `blocks` blocks, and the finished `item`.
        """
        if self._open:
            self.ready.append(raw)
            self.sent.any = True
            self.sent.events += 1
            self.sent.blocks = max(self.sent.blocks, blocks)
            self.sent.items += [item] if item is not None else []
        else:
            self._held.append(_Held(raw, blocks, item))

    def moved(self, index: int) -> int:
        """A block's number for the agent: others came before, and ours are left out."""
        return index - sum(place < index for place in self._left_out) + self._first

    @property
    def number(self) -> int:
        """The number among all events of the next one that is put."""
        return self.sent.events + len(self._held)

    def says(self) -> None:
        """Something for the agent has come."""
        if not self.goes_on:
            self.release()

    def calls_other(self) -> None:
        """A call of a tool of the agent's has come."""
        self.turn.others = True
        self.release()

    def calls_ours(self) -> None:
        """A call of ours has come."""
        if self.goes_on:
            self._open = False

    def release(self) -> None:
        """Sends on what was held, and from now on everything."""
        self._open = True
        held, self._held = self._held, []
        for event in held:
            self.put(*event)


class Format(ABC):
    """A dialect's way to offer the tool, and to tell what a reply makes of it."""

    TOOL: ClassVar[Json]

    @abstractmethod
    def offers(self, body: Mapping[str, Any]) -> bool:
        """Whether the tool can be offered with this request."""

    def offered(self, body: Mapping[str, Any]) -> Json:
        """The request with the tool in it, last."""
        return {**body, "tools": [*(body.get("tools") or ()), self.TOOL]}

    @abstractmethod
    def turn(self, reply: Mapping[str, Any]) -> Turn:
        """What a plain reply is."""

    @abstractmethod
    def without(self, reply: Json) -> Json:
        """A plain reply without our calls."""

    @abstractmethod
    def stream(self, sent: Streamed, *, final: bool) -> Stream:
        """Reads a streamed reply."""

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
    """The sum of two requests' usages, number by number; what is no number is the latter's."""
    if not isinstance(usage, Mapping):
        return dict(before)
    return {**before, **{name: _sum(before.get(name), usage[name]) for name in usage}}


def _sum(before: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return added(before if isinstance(before, Mapping) else {}, value)
    if _is_number(before) and _is_number(value):
        return before + value
    return before if value is None and before is not None else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

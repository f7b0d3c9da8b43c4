"""One transcript as arrays: what selection ranks on, without the texts it would walk to.

Messages and results are numbered from 0 in transcript order. A history only grows. Long because it
is one record: every array grows in the same step.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING, Final, Self

from contextrender_bridge.engine.history.growable_arrays import VectorTable
from contextrender_bridge.engine.history.reuse import ReuseIndex
from contextrender_bridge.engine.history.token_tracking import Originals, Tracking
from contextrender_bridge.engine.text.tokens import TokenCounter
from contextrender_bridge.engine.text.transcript import (
    Event,
    Json,
    digests_after,
    operation_text,
    split,
)

if TYPE_CHECKING:
    from contextrender_bridge.engine.history.history_snapshot import RememberingTracking
    from contextrender_bridge.engine.plan.selection import Selection

NO_CALL = -1
SELECTIONS_KEPT: Final = 3


@dataclass(slots=True)
class _OpenCall:
    message: int
    event: int
    tokens: int
    turn: int
    parts: int
    """A hash of its name and arguments."""


@dataclass(frozen=True, slots=True)
class AppendedMessage:
    """A message that a history has taken in: its events and the first one's number."""

    position: int
    first: int
    events: list[Event]
    digest: str


@dataclass(slots=True)
class ResultArrays:
    """The tool results, one entry each in every array.

    `message` and `event` are the result's own position, `call_event` that of its call (NO_CALL if
    no call asked for it), `call_id` the id it answers, `turn` the turn that called it, `tokens` and
    `call_tokens` their sizes.
    """

    message: array[int] = field(default_factory=lambda: array("l"))
    event: array[int] = field(default_factory=lambda: array("l"))
    call_message: array[int] = field(default_factory=lambda: array("l"))
    call_event: array[int] = field(default_factory=lambda: array("l"))
    turn: array[int] = field(default_factory=lambda: array("l"))
    tokens: array[int] = field(default_factory=lambda: array("l"))
    call_tokens: array[int] = field(default_factory=lambda: array("l"))
    call_id: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.message)


class History:
    """A transcript's structure, sizes, reuse and vectors, as of its last message.

    `turn` is the next model invocation's number, from 1. `spoken` are the positions of messages
    that stand without any call: all but tool results and assistant messages that only call. `names`
    has the tool's name for the event number of every call and result. `totals` are the tokens of
    everything up to and including each message. `tracking` belongs to the policies that
    use it, and is made when it is asked for first; where `followed` is there it stands for
    `tracking`, and belongs to whoever looks back. `selections` are those of the last calls, each
    with its policy, by how many messages the call had. `repeated` has the earlier results of the
    calls that an assistant message makes once more, word for word, by the message.
    """

    def __init__(self) -> None:
        self.roles: list[str] = []
        self.messages: list[Json | None] = []
        self.digests: list[str] = []
        self.turns = array("l")
        self.text_tokens = array("l")
        self.totals = array("l")
        self.first_events = array("l")
        self.times = array("d")
        self.spoken = array("l")
        self.results = ResultArrays()
        self.reuse = ReuseIndex()
        self.vectors = VectorTable()
        self.events = 0
        self.assistants = 0
        self.turn = 1
        self.text_bytes = 0
        self.total_tokens = 0
        self.leading_system = 0
        self.first_user = -1
        self.last_user = -1
        self.last_assistant = -1
        self.names: dict[int, str] = {}
        self.tracking: Tracking | None = None
        self.followed: RememberingTracking | None = None
        self.selections: dict[int, tuple[str, Selection]] = {}
        self.repeated: dict[int, tuple[int, ...]] = {}
        self._open: dict[str, list[_OpenCall]] = {}
        self._latest: dict[int, int] = {}
        self._result_at: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.roles)

    @property
    def digest(self) -> str:
        """The digest of the whole transcript; empty for an empty one."""
        return self.digests[-1] if self.digests else ""

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        fixed = 420 * len(self.roles) + 440 * len(self.results)
        tracked = self.tracking.nbytes if self.tracking else 0
        known = self.vectors.nbytes + self.reuse.nbytes + tracked
        shown = sum(selection.nbytes for _, selection in self.selections.values())
        return fixed + self.text_bytes + known + shown

    def tracking_of(self, messages: int, originals: Originals, counter: TokenCounter) -> Tracking:
        """`tracking`, made on first use, or what `followed` had, of the first `messages`."""
        if self.followed is not None:
            return self.followed.at(self, messages, originals, counter)
        if self.tracking is None:
            self.tracking = Tracking()
        self.tracking.catch_up(self, messages, originals, counter)
        return self.tracking

    def remember(self, policy: str, selection: "Selection") -> None:
        """Keep a call's selection, and those of the call before: that may be made again."""
        self.selections[selection.messages] = (policy, selection)
        for messages in sorted(self.selections)[:-SELECTIONS_KEPT]:
            del self.selections[messages]

    def count_uses(self) -> int:
        """Return how many results answers used, each once per turn."""
        firsts = self.first_events
        uses = self.reuse.uses
        return len({(bisect_right(firsts, use.operation), use.result) for use in uses})

    def result_at(self, message: int) -> int:
        """The number of the result that is this message, or -1."""
        return self._result_at.get(message, -1)

    def results_before(self, messages: int) -> int:
        """How many results there are among the first `messages` messages."""
        return bisect_left(self.results.message, messages)

    def events_before(self, messages: int) -> int:
        """How many events the first `messages` messages have."""
        return self.first_events[messages] if messages < len(self.roles) else self.events

    def place_of(self, event: int) -> tuple[int, int]:
        """Return the message an event is of and the number of the call that it is, or -1."""
        message = bisect_right(self.first_events, event) - 1
        return message, event - self.first_events[message] - 1

    def turn_of(self, result: int) -> int:
        """The turn that called a result."""
        return self.results.turn[result]

    def call_of(self, result: int) -> tuple[int, int]:
        """The message that called a result and the number of the call in it, or -1 twice."""
        return self.calls_of((result,))[0]

    def calls_of(self, results: Iterable[int]) -> list[tuple[int, int]]:
        """The same of several."""
        events, messages = self.results.call_event, self.results.call_message
        places = ((events[result], messages[result]) for result in results)
        return [
            (message, event - self.first_events[message] - 1) if event != NO_CALL else (-1, -1)
            for event, message in places
        ]

    def messages_before(self, turn: int) -> int | None:
        """How many messages there were before a model invocation; None if there was none such."""
        for position, role in enumerate(self.roles):
            if role == "assistant" and self.turns[position] == turn:
                return position
        return len(self.roles) if turn == self.turn else None

    def append(
        self, events: Sequence[Event], digest: str, message: Json | None, time: float = 0.0
    ) -> None:
        """Adds the next message as its events (from `transcript.split`), without tracing reuse.

        `message` is the original, or None to leave its text out of memory; `time` is when it came,
        in seconds since 1970.
        """
        head = events[0]
        position = len(self.roles)
        tokens = head.tokens
        if head.role == "assistant":
            self.assistants, self.turn = self.turn, self.turn + 1
            self.last_assistant = position
        elif head.role == "user":
            self.last_user = position
            if self.first_user < 0:
                self.first_user = position
        elif head.role == "system" and self.leading_system == position:
            self.leading_system += 1
        turn = self.assistants + (head.role in ("user", "system"))
        self.roles.append(head.role)
        self.messages.append(message)
        self.digests.append(digest)
        self.first_events.append(self.events)
        self.times.append(time)
        if message is not None:
            self.text_bytes += sum(len(event.text) for event in events)
        repeated: set[int] = set()
        for offset, event in enumerate(events):
            if event.kind == "call":
                self.names[self.events + offset] = intern(event.name)
                parts = hash((event.name, event.text))
                call = _OpenCall(position, self.events + offset, event.tokens, turn, parts)
                self._open.setdefault(event.call_id, []).append(call)
                if parts in self._latest:
                    repeated.add(self._latest[parts])
        if repeated:
            self.repeated[position] = tuple(sorted(repeated))
        if head.kind == "result":
            turn = self._append_result(head, position)
            tokens = 0
        self.turns.append(turn)
        self.text_tokens.append(tokens)
        if tokens or (head.kind == "message" and len(events) == 1):
            self.spoken.append(position)
        self.events += len(events)
        self.total_tokens += tokens + sum(e.tokens for e in events if e.kind != "message")
        self.totals.append(self.total_tokens)

    def take(
        self,
        messages: Sequence[Json],
        digests: Sequence[str],
        counter: TokenCounter,
        times: Sequence[float],
    ) -> list[AppendedMessage]:
        """Appends the next checked messages, without tracing reuse: their events, for the graph.

        `digests` are the transcript's with each; `times` are when each came, in seconds since 1970.
        """
        taken: list[AppendedMessage] = []
        for message, digest, time in zip(messages, digests, times, strict=True):
            position, first = len(self.roles), self.events
            events = split(message, position, counter)
            self.append(events, digest, message, time)
            taken.append(AppendedMessage(position, first, events, digest))
        return taken

    def trace(self, first: int, events: Sequence[Event]) -> None:
        """Shows a message's events, numbered from `first`, to Tool-Flow Analysis."""
        for number, event in enumerate(events, first):
            if event.kind == "result":
                self.reuse.observe_result(event.text)
            elif event.role == "assistant":
                self.reuse.observe_operation(number, operation_text(event))

    def extend(
        self, messages: Sequence[Json], counter: TokenCounter, times: Sequence[float] = ()
    ) -> None:
        """Appends and traces checked messages, where no graph is to learn of them.

        `times` are when each came, where that is known.
        """
        digests = digests_after(self.digest, messages)
        for taken in self.take(messages, digests, counter, times or [0.0] * len(messages)):
            self.trace(taken.first, taken.events)

    def earlier(self, messages: int, counter: TokenCounter) -> Self | None:
        """The history as it was after its first messages; None when their texts were let go."""
        originals = [message for message in self.messages[:messages] if message is not None]
        if len(originals) < messages:
            return None
        past = type(self)()
        past.extend(originals, counter, self.times[:messages])
        past.vectors = self.vectors.first(len(past.results))
        return past

    def forget_texts(self) -> None:
        """Lets go of the messages themselves; they are read from the graph when shown."""
        self.messages = [None] * len(self.messages)
        self.text_bytes = 0

    def _append_result(self, event: Event, position: int) -> int:
        results = self.results
        self._result_at[position] = len(results)
        call = self._answered(event.call_id)
        if call:
            self._latest[call.parts] = len(results)
        self.names[self.events] = self.names[call.event] if call else intern(event.name)
        results.message.append(position)
        results.event.append(self.events)
        results.tokens.append(event.tokens)
        results.call_message.append(call.message if call else NO_CALL)
        results.call_event.append(call.event if call else NO_CALL)
        results.call_tokens.append(call.tokens if call else 0)
        results.call_id.append(event.call_id)
        turn = call.turn if call else self.assistants
        results.turn.append(turn)
        return turn

    def _answered(self, call_id: str) -> _OpenCall | None:
        """The open call a result answers: the first of the latest message that used the id."""
        waiting = self._open.get(call_id)
        if not waiting:
            return None
        latest = waiting[-1].message
        call = next(call for call in waiting if call.message == latest)
        waiting.remove(call)
        if not waiting:
            del self._open[call_id]
        return call

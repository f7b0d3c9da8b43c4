"""One branch of a session as arrays, from which results are ranked without reading their texts.

Messages and results are numbered from 0 in transcript order. A history only grows. Long because it
is one record: every array grows in the same step.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import TYPE_CHECKING, Final, Self

from contextrender_bridge.engine.history.file_versions import FileEdit, FileVersions
from contextrender_bridge.engine.history.growable_arrays import VectorTable
from contextrender_bridge.engine.history.reuse import ReuseIndex
from contextrender_bridge.engine.history.token_tracking import Originals, Tracking
from contextrender_bridge.engine.text.tokens import TokenCounter
from contextrender_bridge.engine.text.transcript import (
    Json,
    TranscriptEvent,
    digests_after,
    operation_text,
    split,
)

if TYPE_CHECKING:
    from contextrender_bridge.engine.history.history_snapshot import RememberingTracking
    from contextrender_bridge.engine.plan.selection import Selection

NO_CALL = -1
MAX_SELECTIONS: Final = 3


@dataclass(slots=True)
class _OpenCall:
    """A tool call that has no result yet. `hash` is the hash of the call's name and arguments."""

    message: int
    number: int  # in its message
    event: int
    tokens: int
    turn: int
    hash: int


@dataclass(frozen=True, slots=True)
class AppendedMessage:
    """A message that was appended to a history.

    Its events are numbered from `first_event`. `digest` covers all messages up to this one.
    """

    position: int
    first_event: int
    events: list[TranscriptEvent]
    digest: str


@dataclass(slots=True)
class ResultArrays:
    """The tool results. Every array has one entry for each result.

    `message` is the position of the result's message, `event` the number of the result's event.
    `call_message`, `call_number` and `call_event` are the position of the message with the call
    that returned the result, the call's number in this message, and the call's event number. They
    are NO_CALL if there is no such call. `call_id` and `turn` are the call's id and turn.
    `tokens` and `call_tokens` are the sizes of the result and of the call.
    """

    message: array[int] = field(default_factory=lambda: array("l"))
    event: array[int] = field(default_factory=lambda: array("l"))
    call_message: array[int] = field(default_factory=lambda: array("l"))
    call_number: array[int] = field(default_factory=lambda: array("l"))
    call_event: array[int] = field(default_factory=lambda: array("l"))
    turn: array[int] = field(default_factory=lambda: array("l"))
    tokens: array[int] = field(default_factory=lambda: array("l"))
    call_tokens: array[int] = field(default_factory=lambda: array("l"))
    call_id: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of results."""
        return len(self.message)


class History:
    """A transcript's structure, sizes, reuse and vectors, as of its last message.

    An event is a message's text, a tool call or a tool result. `__init__` says what each field has.
    """

    def __init__(self) -> None:
        """Start an empty history."""
        # One entry for each message, by its position:
        self.roles: list[str] = []
        self.messages: list[Json | None] = []  # None if its text is not in memory
        self.digests: list[str] = []  # of all messages up to it
        self.turns = array("l")  # a result has the turn of its call
        self.text_tokens = array("l")  # of the message's text; 0 for a tool result
        self.text_totals = array("l", [0])
        """The text tokens of all messages before it. One more entry has those of all messages."""
        self.totals = array("l")  # the tokens of all messages up to it, results and calls included
        self.first_events = array("l")  # the number of its first event
        self.times = array("d")  # when it arrived, in seconds since 1970

        # Counts, and positions of messages (-1 if there is none):
        self.events = 0
        self.assistants = 0  # the number of assistant messages
        self.turn = 1  # the number of the next model call
        self.text_bytes = 0  # the size of the texts in memory
        self.total_tokens = 0
        self.leading_system = 0  # the number of system messages before all others
        self.first_user = -1
        self.last_user = -1
        self.last_assistant = -1
        self.text_messages = array("l")
        """The positions of all messages but tool results and messages that consist of calls."""

        # Tool results and calls:
        self.results = ResultArrays()
        self.reuse = ReuseIndex()
        self.files = FileVersions()
        self.vectors = VectorTable()
        self.names: dict[int, str] = {}  # the tool's name of each call and result, by event number
        self.results_called_again: dict[int, tuple[int, ...]] = {}
        """By an assistant message's position: the results whose call it repeats word for word."""
        self._open_calls: dict[str, list[_OpenCall]] = {}  # calls without a result, by id
        self._latest_result: dict[int, int] = {}  # the newest result of a call, by the call's hash
        self._result_at: dict[int, int] = {}  # the result's number, by its message's position

        # What policies need from call to call:
        self.tracking: Tracking | None = None  # created by the first policy that needs it
        self.replay_tracking: RememberingTracking | None = None
        """Set by a replay instead of `tracking`, because it can return to earlier messages."""
        self.selections: dict[int, tuple[str, Selection]] = {}
        """The policies and selections of the last calls, by the calls' number of messages."""
        self._selection_bytes: dict[int, int] = {}  # the memory of each of these selections

    def __len__(self) -> int:
        """Return the number of messages."""
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
        indexes = self.vectors.nbytes + self.reuse.nbytes + self.files.nbytes + tracked
        return fixed + self.text_bytes + indexes + sum(self._selection_bytes.values())

    def tracking_of(self, messages: int, originals: Originals, counter: TokenCounter) -> Tracking:
        """Return the tracking of at least the first `messages` messages, and read those it lacks.

        A replay gets a tracking of exactly these messages. `originals` reads messages.
        """
        if self.replay_tracking is not None:
            return self.replay_tracking.at(self, messages, originals, counter)
        if self.tracking is None:
            self.tracking = Tracking()
        self.tracking.catch_up(self, messages, originals, counter)
        return self.tracking

    def remember(self, policy: str, selection: "Selection") -> None:
        """Keep the selection of a call in memory, and drop all but the last `MAX_SELECTIONS`.

        More than one is kept, because a caller may repeat an earlier call.
        """
        self.selections[selection.messages] = (policy, selection)
        self._selection_bytes[selection.messages] = selection.nbytes
        for messages in sorted(self.selections)[:-MAX_SELECTIONS]:
            del self.selections[messages], self._selection_bytes[messages]

    def count_uses(self) -> int:
        """Return the number of results that answers used. A result counts once per answer."""
        first_events = self.first_events
        # An operation is a text or call of an answer. `bisect_right` returns one and the same
        # number for all operations of an answer, so the number stands for the answer.
        answers_and_results = {
            (bisect_right(first_events, use.operation), use.result) for use in self.reuse.uses
        }
        return len(answers_and_results)

    def result_at(self, message: int) -> int:
        """Return the number of the result in this message, or -1."""
        return self._result_at.get(message, -1)

    def latest_of(self, role: str, messages: int) -> int:
        """Return the position of the last message of a role among the first `messages`, or -1."""
        roles = self.roles
        return next((p for p in range(messages - 1, -1, -1) if roles[p] == role), -1)

    def is_result(self, message: int) -> bool:
        """Return whether the message at this position is a tool result."""
        return message in self._result_at

    def results_before(self, messages: int) -> int:
        """Return the number of results among the first `messages` messages."""
        return bisect_left(self.results.message, messages)

    def events_before(self, messages: int) -> int:
        """Return the number of events of the first `messages` messages."""
        return self.first_events[messages] if messages < len(self.roles) else self.events

    def place_of(self, event: int) -> tuple[int, int]:
        """Return the position of an event's message, and the number of the call in the message.

        A message's first event is its text or its result, for which the number is -1. The events of
        the message's calls follow, with the numbers 0, 1 and so on.
        """
        message = bisect_right(self.first_events, event) - 1
        return message, event - self.first_events[message] - 1

    def turn_of(self, result: int) -> int:
        """Return the turn that called for a result."""
        return self.results.turn[result]

    def call_of(self, result: int) -> tuple[int, int]:
        """Return the position of the message with a result's call, and the call's number in it.

        Return -1 and -1 if the result has no call.
        """
        return self.results.call_message[result], self.results.call_number[result]

    def edits_since(self, result: int, messages: int) -> list[FileEdit]:
        """Return the edits of a result's file after the result's call.

        Only the first `messages` messages are searched. Return an empty list if the path of the
        file is not known.
        """
        if not self.files.has_path(result):
            return []
        return self.files.edits_after(result, self.results.call_message[result], messages)

    def messages_before(self, turn: int) -> int | None:
        """Return the number of messages before a model call, or None if there is no such call."""
        for position, role in enumerate(self.roles):
            if role == "assistant" and self.turns[position] == turn:
                return position
        return len(self.roles) if turn == self.turn else None

    def append(
        self,
        events: Sequence[TranscriptEvent],
        digest: str,
        message: Json | None,
        time: float = 0.0,
    ) -> None:
        """Append the next message as its events (from `transcript.split`), without tracing reuse.

        `message` is the original, or None to keep its text out of memory. `time` is when the
        message arrived, in seconds since 1970.
        """
        head = events[0]  # the message's text or result; its calls follow
        position = len(self.roles)
        # From here on, `assistants` and `turn` also count this message, if it is an answer.
        self._count_role(head.role, position)
        # User and system messages belong to the next turn, an answer to its own turn.
        turn = self.turn if head.role in ("user", "system") else self.assistants
        self.roles.append(head.role)
        self.messages.append(message)
        self.digests.append(digest)
        self.first_events.append(self.events)
        self.times.append(time)
        if message is not None:
            self.text_bytes += sum([len(event.text) for event in events])
        # Add the calls and the result, which are in other arrays.
        self._add_calls(events, position, turn)
        if head.kind == "result":
            turn = self._append_result(head, position)  # the turn of its call
            self.text_tokens.append(0)  # `results` has the tokens of its text
        else:
            self.text_tokens.append(head.tokens)
            consists_of_calls = not head.tokens and len(events) > 1
            if not consists_of_calls:
                self.text_messages.append(position)
        self.text_totals.append(self.text_totals[-1] + self.text_tokens[-1])
        self.turns.append(turn)
        self.events += len(events)
        self.total_tokens += sum([event.tokens for event in events])
        self.totals.append(self.total_tokens)

    def _count_role(self, role: str, position: int) -> None:
        """Update the positions and counts that follow from the role of the next message."""
        if role == "assistant":
            self.assistants += 1
            self.turn += 1
            self.last_assistant = position
        elif role == "user":
            self.last_user = position
            if self.first_user < 0:
                self.first_user = position
        elif role == "system" and self.leading_system == position:
            self.leading_system += 1

    def _add_calls(self, events: Sequence[TranscriptEvent], position: int, turn: int) -> None:
        """Add a message's calls to the open calls, which wait for their results.

        Also record the earlier results whose calls are repeated word for word.
        """
        results_called_again: set[int] = set()
        for number, event in enumerate(events, self.events):
            if event.kind == "call":
                self.names[number] = intern(event.name)
                call_hash = hash((event.name, event.text))
                # The message's first event is its text, so its first call has the number 0.
                call_number = number - self.events - 1
                call = _OpenCall(position, call_number, number, event.tokens, turn, call_hash)
                self._open_calls.setdefault(event.call_id, []).append(call)
                self.files.add_call((position, call_number), event.text)
                if call_hash in self._latest_result:
                    results_called_again.add(self._latest_result[call_hash])
        if results_called_again:
            self.results_called_again[position] = tuple(sorted(results_called_again))

    def append_messages(
        self,
        messages: Sequence[Json],
        digests: Sequence[str],
        counter: TokenCounter,
        times: Sequence[float],
    ) -> list[AppendedMessage]:
        """Append the next checked messages without tracing reuse. Return them with their events.

        `digests` has, for each message, the digest of all messages up to it. `times` has the time
        when each message arrived, in seconds since 1970.
        """
        appended: list[AppendedMessage] = []
        for message, digest, time in zip(messages, digests, times, strict=True):
            position, first_event = len(self.roles), self.events
            events = split(message, position, counter)
            self.append(events, digest, message, time)
            appended.append(AppendedMessage(position, first_event, events, digest))
        return appended

    def trace(self, first_event: int, events: Sequence[TranscriptEvent]) -> None:
        """Trace the reuse of a message that was appended.

        If it is a result, add the values of the result to the index. If it is an answer, record
        which earlier results its text and calls use. Its events are numbered from `first_event`.
        """
        for number, event in enumerate(events, first_event):
            if event.kind == "result":
                self.reuse.observe_result(event.text)
            elif event.role == "assistant":
                self.reuse.observe_operation(number, operation_text(event))

    def extend(
        self, messages: Sequence[Json], counter: TokenCounter, times: Sequence[float] = ()
    ) -> None:
        """Append checked messages and trace their reuse, without storing them.

        `times` has the time when each message arrived, in seconds since 1970. It is empty if the
        times are not known.
        """
        digests = digests_after(self.digest, messages)
        times = times or [0.0] * len(messages)
        for message in self.append_messages(messages, digests, counter, times):
            self.trace(message.first_event, message.events)

    def up_to(self, messages: int, counter: TokenCounter) -> Self | None:
        """Return the history as it was after its first `messages` messages.

        Return None if the texts of some of them are not in memory.
        """
        originals = [message for message in self.messages[:messages] if message is not None]
        if len(originals) < messages:
            return None
        earlier = type(self)()
        earlier.extend(originals, counter, self.times[:messages])
        earlier.vectors = self.vectors.first(len(earlier.results))
        return earlier

    def forget_texts(self) -> None:
        """Free the memory of the messages. Their texts are read from the graph when needed."""
        self.messages = [None] * len(self.messages)
        self.text_bytes = 0

    def _append_result(self, event: TranscriptEvent, position: int) -> int:
        """Append a result to `results`, and return the turn of its call.

        If it has no call, return the turn of the latest answer.
        """
        results = self.results
        self._result_at[position] = len(results)
        # The result answers one of the open calls, if one has its id.
        call = self._close_call(event.call_id)
        if call:
            self._latest_result[call.hash] = len(results)
            self.files.add_result(len(results), (call.message, call.number), event.text)
        self.names[self.events] = self.names[call.event] if call else intern(event.name)
        results.message.append(position)
        results.event.append(self.events)
        results.tokens.append(event.tokens)
        results.call_message.append(call.message if call else NO_CALL)
        results.call_number.append(call.number if call else NO_CALL)
        results.call_event.append(call.event if call else NO_CALL)
        results.call_tokens.append(call.tokens if call else 0)
        results.call_id.append(event.call_id)
        turn = call.turn if call else self.assistants
        results.turn.append(turn)
        return turn

    def _close_call(self, call_id: str) -> _OpenCall | None:
        """Remove an open call with this id, because its result has arrived, and return the call.

        If several open calls have the id, take those in the latest message, and of these the first.
        Return None if no open call has the id.
        """
        open_calls = self._open_calls.get(call_id)
        if not open_calls:
            return None
        latest = open_calls[-1].message
        call = next(call for call in open_calls if call.message == latest)
        open_calls.remove(call)
        if not open_calls:
            del self._open_calls[call_id]
        return call

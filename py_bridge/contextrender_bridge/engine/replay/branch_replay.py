"""The past model calls of a branch: recorded ones, and renderings recomputed from the store.

The prompt that the model received is recorded with the call (`record_at`). A rendering is not
stored: it is computed by today's rules from the settings and the messages before the call. A
`BranchReplay` is a cache of one process: it reads the stored events once, and then only new ones.
Long because one class holds the data of a branch, which grows in one step.
"""

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, Final, NamedTuple
from uuid import UUID

from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.display_history import DisplayChange
from contextrender_bridge.engine.call.missing_results import MissingResult, uses_of
from contextrender_bridge.engine.call.old_versions import old_versions_used
from contextrender_bridge.engine.call.render_call import (
    Compact,
    RenderedCall,
    make_context,
    render_call,
)
from contextrender_bridge.engine.call.settings import RenderSettings, SettingsByTurn
from contextrender_bridge.engine.history.event_decoding import Fields, StoredUses, append_stored
from contextrender_bridge.engine.history.history import NO_CALL, History
from contextrender_bridge.engine.history.history_snapshot import (
    RememberingTracking,
    earlier_history,
)
from contextrender_bridge.engine.history.past_reuse import RememberingReuse
from contextrender_bridge.engine.history.reuse import Use, extract_values
from contextrender_bridge.engine.models.embeddings import Embedder, RememberingEmbedder
from contextrender_bridge.engine.plan.ranking import Relevance
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.plan.selection_chain import SelectionChain
from contextrender_bridge.engine.plan.selection_edges import CallEdge, CallEdges
from contextrender_bridge.engine.policies import policy_named
from contextrender_bridge.engine.replay import let_requests_run
from contextrender_bridge.engine.replay.recall_measures import RecallTrace
from contextrender_bridge.engine.text.tokens import TokenCounter, arguments_of

MAX_EARLIER_HISTORIES: Final = 3
SEARCHED_CALLS: Final = 3
"""To find the call that another call continues, this number of calls before it is searched."""
RECENT_CALLS: Final = 8
"""A new call follows another new call, or one of this many calls read before."""
ROW_BYTES: Final = 1_500
"""An estimate of the memory of a stored event's fields and vector.

The text is not included, because the history has the same text.
"""


class CallPosition(NamedTuple):
    """The position of a call in its branch: the number of events before the call, and its turn."""

    events: int
    turn: int


class BranchReplay:
    """One branch's stored events and its model calls, from which past prompts are recomputed.

    Only a thread that holds `lock` may use it. The message after a call's messages is its answer,
    an assistant message. If the call has no answer, it is a user message, or there is none yet.
    """

    def __init__(self, embedder: Embedder, counter: TokenCounter) -> None:
        """Create the replay of a branch of which no event was read yet."""
        self.lock = threading.Lock()
        self._embedder, self._counter = RememberingEmbedder(embedder), counter

        # The branch's events. The reuse and the tracking of this history can return their earlier
        # states, so that `history_before` need not read all texts again.
        self.full_history = History()
        self.full_history.reuse = RememberingReuse()
        self.full_history.replay_tracking = self._tracking = RememberingTracking()
        self._rows: list[list[Fields]] = []  # the stored fields of each message's events
        self._stored_uses: StoredUses | None = None  # the uses of results that the store has
        self._result_numbers: dict[int, int] = {}  # each result's number, by its event number
        self.answer_positions: list[int] = []  # the positions of the assistant messages

        # Records, missing results and ids of the recorded calls, by the call's number of messages.
        self.calls: dict[int, CallRecord] = {}
        self.missing_results: dict[int, tuple[MissingResult, ...]] = {}
        self.ids: dict[int, UUID] = {}

        # The calls by their ids.
        self.chain = SelectionChain()  # the selection of each recorded call
        self.call_positions: dict[UUID, CallPosition] = {}
        self._changes: dict[int, list[DisplayChange]] | None = None
        """The changes of how calls displayed each result, by the result's event number.

        It is None if calls were added since it was computed.
        """
        self.usage_count = 0
        """The number of the session's calls with usage, when the calls were last read."""
        self.revision = 0
        """The revision of the session's row when events and calls were last read."""
        self.settings_by_turn = SettingsByTurn(RenderSettings())

        # Caches of what is computed from the events.
        self._earlier: OrderedDict[int, History] = OrderedDict()  # by their number of messages
        self._last_selection: dict[RenderSettings, Selection] = {}  # of the last rendered call
        self._recall = RecallTrace()  # finds the results that an answer repeats
        self._recall_messages = 0  # the number of messages that were added to `_recall`
        self._recall_results: dict[int, list[int]] = {}  # by turn: the results that it found
        self._message_of_value: dict[str, int] = {}
        """The first user or system message with each value, among the first `_read_messages`."""
        self._read_messages = 0
        self._old_versions: dict[int, dict[int, int]] = {}
        """The results of `old_versions_used`, by the answer's position.

        They map each result whose outdated lines the answer used to the turn of the first edit.
        """

    @property
    def awaits_answer(self) -> bool:
        """True if the last message is not an answer of the model."""
        return bool(self._rows) and self.full_history.roles[-1] != "assistant"

    @property
    def turns(self) -> int:
        """The number of the last call, also if it has no answer yet."""
        return len(self.answer_positions) + self.awaits_answer

    @property
    def answered_turns(self) -> int:
        """The number of calls with a recorded answer or, as the last call may have, only usage."""
        record = self.record_at(self.turns) if self.awaits_answer else None
        is_only_reported = record is not None and record.usage is not None
        return len(self.answer_positions) + is_only_reported

    @property
    def next_turn(self) -> int:
        """The number of the next call without an answer."""
        return len(self.answer_positions) + 1

    def extend(
        self, event_rows: Iterable[Fields], first: int, stored_uses: StoredUses | None = None
    ) -> None:
        """Append events, given as their stored fields. The first of them has the number `first`.

        Skip the events that the replay has already. The uses of results are read from
        `stored_uses`. If it is None, they are traced again from the texts.
        """
        new_rows = list(event_rows)[self.full_history.events - first :]
        if not new_rows:
            return
        # A message has one row for each of its events.
        for position, message_rows in groupby(new_rows, key=lambda fields: fields["position"]):
            self._rows.append(list(message_rows))
            if self._rows[-1][0].get("role") == "assistant":
                self.answer_positions.append(position)
        if stored_uses is not None:
            self._stored_uses = {**(self._stored_uses or {}), **stored_uses}
        # Append the new messages to the history, and number their results.
        self.grow(self.full_history, len(self._rows))
        result_events = self.full_history.results.event
        for result in range(len(self._result_numbers), len(result_events)):
            self._result_numbers[result_events[result]] = result

    def messages_before(self, turn: int) -> int | None:
        """Return the number of messages before a call, or None if there is no such call."""
        return len(self._rows) if turn == self.next_turn else self.answer_to(turn)

    def answer_to(self, turn: int) -> int | None:
        """Return the position of the message that answered a call, or None if there is none."""
        return self.answer_positions[turn - 1] if 1 <= turn <= len(self.answer_positions) else None

    def is_answered(self, turn: int) -> bool:
        """Return whether a call has an answer."""
        return 1 <= turn <= len(self.answer_positions)

    def fields_of(self, message: int) -> Sequence[Fields]:
        """Return the stored fields of a message and its calls."""
        return self._rows[message]

    def position_of(self, event: int) -> int:
        """Return the position of an event's message."""
        return bisect_right(self.full_history.first_events, event) - 1

    def record_at(self, turn: int) -> CallRecord | None:
        """Return the record of a call, or None if it was not recorded."""
        messages = self.messages_before(turn)
        return None if messages is None else self.calls.get(messages)

    def selection_at(self, messages: int) -> Selection | None:
        """Return the selection of the recorded call that had `messages` messages, or None."""
        if messages not in self.ids:
            return None
        return self.chain.selection(
            self.ids[messages], messages, self.full_history, self.event_text
        )

    def shown_at(self, messages: int) -> tuple[set[int], set[int]]:
        """Return two sets: the results that a call's prompt showed complete, and in part.

        The call had `messages` messages, and must be recorded.
        """
        trail = self.chain.trail(self.ids[messages])
        assert trail is not None
        return self._results_among(trail.complete), self._results_among(trail.partial)

    def _results_among(self, events: Iterable[int]) -> set[int]:
        """Return the numbers of the results among these events."""
        numbers = self._result_numbers
        return {numbers[event] for event in events if event in numbers}

    def add_calls(
        self,
        positions: Mapping[UUID, CallPosition],
        records: Mapping[UUID, CallRecord],
        edges: Mapping[UUID, CallEdges],
        before: Mapping[UUID, UUID],
        miss_edges: Mapping[UUID, Sequence[CallEdge]],
    ) -> None:
        """Add recorded calls, or replace them. The keys of all mappings are ids of calls.

        `positions` are in the order of the events. `edges` store each call's selection, maybe as
        changes since another call, whose id is in `before`. `miss_edges` lead to the results that
        a call's answer used although its prompt did not show them. Calls of the parent branch have
        edges, because later calls store changes since them, but no records.
        """
        self.call_positions |= positions
        self.chain.update(edges, before)
        self._changes = None  # must be computed again
        for call, position in positions.items():
            if call not in edges:
                continue
            messages = bisect_left(self.full_history.first_events, position.events)
            self.ids[messages] = call
            # If an edge is corrupted or missing in the store, the call counts as not recorded.
            has_all_edges = self.chain.trail(call) is not None
            if call in records and has_all_edges:
                self.calls[messages] = records[call]
                self.missing_results[messages] = tuple(
                    MissingResult.of(self._result_numbers[edge.event], edge.fields)
                    for edge in miss_edges.get(call, ())
                    if edge.event in self._result_numbers
                )

    def display_histories(self, results: Iterable[int]) -> dict[int, list[DisplayChange]]:
        """Map each of these results to all changes of how the calls showed it, in order."""
        # Collect the changes of all calls, by event, if calls were added since the last time.
        if self._changes is None:
            self._changes = {}
            for call in self.call_positions.keys() & self.chain.calls.keys():
                position = self.call_positions[call]
                for edge in self.chain.calls[call].edges:
                    change = DisplayChange(position.events, position.turn, edge.kind)
                    self._changes.setdefault(edge.event, []).append(change)
        events = self.full_history.results.event
        return {result: sorted(self._changes.get(events[result], ())) for result in results}

    def previous_selection(self, messages: int, policy: str) -> Selection | None:
        """Return the selection that the call with `messages` messages continues, or None.

        It is the selection of the last recorded call with an answer among the `SEARCHED_CALLS`
        calls before. If that call has another policy than `policy`, return None.
        """
        roles = self.full_history.roles
        # A call's messages are followed by its answer or, without an answer, by a user message. So
        # these are the numbers of messages of the earlier calls, the latest first.
        earlier_calls = (p for p in range(messages - 1, 0, -1) if roles[p] in ("assistant", "user"))
        for position in islice(earlier_calls, SEARCHED_CALLS):
            is_answered = roles[position] == "assistant"
            if is_answered and (record := self.calls.get(position)):
                has_policy = record.settings.policy == policy
                return self.selection_at(position) if has_policy else None
        return None

    def event_text(self, event: int) -> str:
        """Return the text of a message or a result, or a call's arguments, by event number."""
        message, call = self.full_history.place_of(event)
        if call < 0:
            return self.text_of(message)
        return arguments_of(self.full_history.messages[message] or {}, call)

    def read_settings(self, default: RenderSettings) -> None:
        """Set `settings_by_turn` to the settings of the recorded calls.

        Calls before the first recorded call have the settings `default`.
        """
        calls = enumerate([*self.answer_positions, len(self._rows)], 1)
        self.settings_by_turn = SettingsByTurn.of(
            [(turn, self.calls[call].settings) for turn, call in calls if call in self.calls],
            default,
        )

    def calls_to_read_again(self, usage_count: int) -> list[int]:
        """Return the recorded calls for which a provider's reply may have been reported since.

        Each call is given by the first event number of its answer. `usage_count` is the number of
        the session's calls that have usage now.
        """
        first_events, answers = self.full_history.first_events, self.answer_positions
        calls = [(first_events[p], self.calls[p]) for p in answers if p in self.calls]
        if usage_count == self.usage_count:
            # No usage was reported since, but perhaps a reply without usage.
            without_reply = (e for e, call in calls if call.usage is None and not call.reply.status)
            return list(without_reply)[-RECENT_CALLS:]
        self.usage_count = usage_count
        return [event for event, call in calls if call.usage is None]

    def used_at(self, turn: int) -> list[int]:
        """Return the numbers of the results that a turn's answer used, each once."""
        return sorted({use.result for use in self.uses_at(turn)})

    def uses_at(self, turn: int) -> Sequence[Use]:
        """Return the uses of results in a turn's answer, for its text and then for each call."""
        message = self.answer_to(turn)
        return () if message is None else uses_of(self.full_history, message)

    def old_versions_at(self, turn: int) -> dict[int, int]:
        """Return the results whose outdated lines a turn's answer used (`old_versions_used`).

        Each result's number is mapped to the turn of the first edit of its file after the result.
        """
        message = self.answer_to(turn)
        if message is None:
            return {}
        if message not in self._old_versions:
            edit_turns = old_versions_used(self.full_history, message, self.texts_of)
            self._old_versions[message] = edit_turns
        return self._old_versions[message]

    def text_of(self, message: int) -> str:
        """Return the text of a message."""
        return str(self._rows[message][0]["text"])

    def texts_of(self, messages: Sequence[int]) -> list[str]:
        """Return the texts of messages."""
        return [self.text_of(message) for message in messages]

    def recall_results_at(self, turn: int) -> tuple[int, ...]:
        """Return the results whose tokens a turn repeats (docs/method.md, Measures)."""
        # Read the messages that were added since the last call of this method.
        for message in range(self._recall_messages, len(self.full_history)):
            for event in self._recall.add(self.full_history.messages[message] or {}):
                self._recall_results.setdefault(event.turn, []).append(event.result)
        self._recall_messages = len(self.full_history)
        return tuple(self._recall_results.get(turn, ()))

    def message_with(self, value: str, operation: int) -> int:
        """Return the first user or system message before an operation that contains a value.

        Return -1 if there is no such message. If there is one, the agent may have taken the value
        from the message, and not from a result. `operation` is an event number.
        """
        # Read the messages that were added since the last call of this method.
        for message in range(self._read_messages, len(self.full_history)):
            if self.full_history.roles[message] in ("user", "system"):
                for found_value in extract_values(self.text_of(message)):
                    self._message_of_value.setdefault(found_value, message)
        self._read_messages = len(self.full_history)
        message = self._message_of_value.get(value, -1)
        return message if message < self.position_of(operation) else -1

    def output_of(self, turn: int) -> int:
        """Return the tokens of a call's answer, 0 if there is none."""
        message = self.answer_to(turn)
        return 0 if message is None else sum(int(row["tokens"]) for row in self._rows[message])

    def total_before(self, turn: int) -> int:
        """Return the tokens of the full history before a call, 0 if there is no such call."""
        messages = self.messages_before(turn)
        return self.full_history.totals[messages - 1] if messages else 0

    def results_before(self, turn: int) -> int:
        """Return the number of results before a call."""
        return self.full_history.results_before(self.messages_before(turn) or 0)

    def arguments_of(self, result: int) -> str:
        """Return the arguments of a result's call."""
        call = self._call_of(result)
        return str(call["text"]) if call else ""

    def _call_of(self, result: int) -> Fields | None:
        """Return the stored fields of a result's call, or None if it has no call."""
        event = self.full_history.results.call_event[result]
        message = self.full_history.results.call_message[result]
        if event == NO_CALL:
            return None
        return self._rows[message][event - self.full_history.first_events[message]]

    def holders_of(self, value: str) -> list[int]:
        """Return every result that contains a value as a whole (`extract_values`)."""
        holders: list[int] = []
        for result, message in enumerate(self.full_history.results.message):
            text = self.text_of(message)
            if value in text and value in extract_values(text):  # the first test is fast
                holders.append(result)
        return holders

    def history_before(self, messages: int) -> History:
        """Return the history as it was after its first `messages` messages.

        The last few such histories are cached, with the vectors that renderings computed for them.
        Do not keep the returned history, so that its memory can be freed.
        """
        if messages == len(self.full_history):
            return self.full_history
        if messages not in self._earlier:
            self._earlier[messages] = earlier_history(self.full_history, messages)
        self._earlier.move_to_end(messages)
        while len(self._earlier) > MAX_EARLIER_HISTORIES:
            self._earlier.popitem(last=False)
        return self._earlier[messages]

    def render(
        self,
        history: History,
        settings: RenderSettings,
        compact: Compact | None = None,
        previous: Selection | None = None,
    ) -> RenderedCall:
        """Return the rendering of a call, as if all earlier calls had had these settings.

        `compact` returns stored result summaries. A cache-aware policy continues the selection
        `previous`, or the last rendering that this method returned for these settings. If the
        history does not have the answer to that call, the policy starts before the first call.
        Before it selects this call, it makes the selections of all answered calls in between.
        """
        # Other policies do not depend on earlier calls.
        if not policy_named(settings.policy).is_cache_aware:
            return self.render_after(None, history, settings, compact)
        selection = previous or self._last_selection.get(settings)
        if selection is not None:
            answer = selection.messages  # the message after the call's messages
            is_answered = answer < len(history) and self.full_history.roles[answer] == "assistant"
            if not is_answered:
                selection = None
        rendered = self.render_after(selection, history, settings, compact, select_answered=True)
        self._last_selection[settings] = rendered.selection
        return rendered

    def render_after(
        self,
        previous: Selection | None,
        history: History,
        settings: RenderSettings,
        compact: Compact | None = None,
        *,
        select_answered: bool = False,
    ) -> RenderedCall:
        """Return the rendering of a call that continues the `previous` selection.

        Without `select_answered`, `previous` must be the selection of the last answered call, or
        None. With `select_answered`, it may be the selection of an earlier call. Then the policy
        first makes the selections of the answered calls after it, and continues the last of them.
        """
        return render_call(
            history,
            **self._inputs(settings),
            embedder=lambda: self._embedder,
            agent_defaults=settings.agent_defaults,
            compact=compact,
            previous=previous,
            select_answered=select_answered,
        )

    def render_recorded(
        self, history: History, settings: RenderSettings, selection: Selection
    ) -> RenderedCall:
        """Return a recorded call as a rendering with the recorded `selection`."""
        share = settings.parameters.query_task_share
        relevance = Relevance(history, lambda: self._embedder, self.texts_of, share)
        context = make_context(history, **self._inputs(settings), relevance_of=relevance)
        return RenderedCall(context, selection)

    def _inputs(self, settings: RenderSettings) -> dict[str, Any]:
        """Return the arguments of `render_call` that follow from the settings."""
        return {
            "budget": settings.budget,
            "model_window": settings.window or None,
            "policy": policy_named(settings.policy),
            "parameters": settings.parameters,
            "pins": settings.pins,
            "counter": self._counter,
            "texts_of": self.texts_of,
        }

    def grow(self, history: History, messages: int) -> None:
        """Append the branch's next messages to a history, until it has `messages` messages."""
        for rows in self._rows[len(history) : messages]:
            append_stored(history, rows, self._embedder.name, self._stored_uses)
            let_requests_run()  # a branch may have thousands of messages

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        rows = ROW_BYTES * self.full_history.events
        earlier = sum(history.nbytes for history in list(self._earlier.values()))
        caches = self._embedder.nbytes + self._tracking.nbytes + self.chain.nbytes
        return self.full_history.nbytes + earlier + rows + caches

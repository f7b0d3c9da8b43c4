"""What every past model call of a branch showed, recomputed from what is stored of it.

Nothing here is stored: a call's rendering follows from the messages before it and the settings,
by today's rules. What it was shown when it was made is noted with its answer (`record_at`).
A `BranchReplay` reads the stored events once and only grows; it is a cache of one process.
Long because one class holds what is known of a branch, which grows in one step.
"""

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.missing_results import MissingResult, uses_of
from contextrender_bridge.engine.call.render_call import (
    Compact,
    RenderedCall,
    policy_input,
    render_call,
)
from contextrender_bridge.engine.call.result_life import LifeChange, ResultLife
from contextrender_bridge.engine.call.settings import RenderSettings, SettingsByTurn
from contextrender_bridge.engine.history.event_decoding import Fields, StoredUses, append_stored
from contextrender_bridge.engine.history.history import NO_CALL, History
from contextrender_bridge.engine.history.history_snapshot import (
    RememberingTracking,
    earlier_history,
)
from contextrender_bridge.engine.history.reuse import RememberingReuse, Use
from contextrender_bridge.engine.models.embeddings import Embedder, RememberingEmbedder
from contextrender_bridge.engine.models.summaries import (
    Summaries,
    SummariesInMemory,
    SummaryModel,
    SummaryStore,
    summaries_for,
)
from contextrender_bridge.engine.plan.ranking import Relevance
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.plan.selection_chain import SelectionChain
from contextrender_bridge.engine.plan.selection_edges import CallEdges, ShownEvent
from contextrender_bridge.engine.policies import policy_named
from contextrender_bridge.engine.replay import pause
from contextrender_bridge.engine.replay.recall_measures import RecallTrace
from contextrender_bridge.engine.text.tokens import TokenCounter, arguments_of, content_text
from contextrender_bridge.engine.text.values import extract_values

MOST_EARLIER: Final = 3
LOOKED_BACK: Final = 3
"""How many earlier calls may be the one that the next call goes on from."""
ROW_BYTES: Final = 1_500
"""A stored event's fields without its text, which the history shares, but with its vector's."""


class BranchReplay:
    """One branch's stored events, and what its calls showed.

    `calls` are the recorded ones, `missing` what their prompts lacked and `ids` their ids, by how
    many messages they had; `chain` has what they showed. `places` has the number of events before
    each call, and its turn, by the call's id: also of calls that a user's message followed.
    Only the holder of `lock` may use it.
    """

    def __init__(self, embedder: Embedder, counter: TokenCounter) -> None:
        self.lock = threading.Lock()
        self.whole = History()
        self.whole.reuse = RememberingReuse()
        self.whole.replay_tracking = self._tracking = RememberingTracking()
        self.summaries: SummaryStore = SummariesInMemory()
        self.summary_model = SummaryModel()
        self._embedder = RememberingEmbedder(embedder)
        self._counter = counter
        self._rows: list[list[Fields]] = []
        self.invocations: list[int] = []
        self._recall = RecallTrace()
        self._recalled = 0
        self._needed: dict[int, list[int]] = {}
        self._earlier: OrderedDict[int, History] = OrderedDict()
        self._followed: dict[RenderSettings, Selection] = {}
        self._drawn: StoredUses | None = None
        self.calls: dict[int, CallRecord] = {}
        self.missing: dict[int, tuple[MissingResult, ...]] = {}
        self.chain = SelectionChain()
        self.ids: dict[int, UUID] = {}
        self.places: dict[UUID, tuple[int, int]] = {}
        self._number_of: dict[int, int] = {}
        self._changes: dict[int, list[LifeChange]] | None = None
        self.bills = 0

    @property
    def waiting(self) -> bool:
        """Whether the model has yet to answer what came last."""
        return bool(self._rows) and self.whole.roles[-1] != "assistant"

    @property
    def turns(self) -> int:
        """The number of the last call: the next one's, unless the model spoke last."""
        return len(self.invocations) + self.waiting

    @property
    def next_turn(self) -> int:
        """The number of the call that would be made now."""
        return len(self.invocations) + 1

    def extend(self, stored: Iterable[Fields], first: int, drawn: StoredUses | None = None) -> None:
        """Appends the fields of events from number `first` on; those known already are skipped.

        `drawn` are the uses the graph holds of them; without it they are traced anew.
        """
        fresh = list(stored)[self.whole.events - first :]
        if not fresh:
            return
        for position, group in groupby(fresh, key=lambda fields: fields["position"]):
            rows = list(group)
            self._rows.append(rows)
            if rows[0].get("role") == "assistant":
                self.invocations.append(position)
        if drawn is not None:
            self._drawn = {**(self._drawn or {}), **drawn}
        self.grow(self.whole, len(self._rows))

        results = self.whole.results.event
        for number in range(len(self._number_of), len(results)):
            self._number_of[results[number]] = number

    def messages_before(self, turn: int) -> int | None:
        """How many messages there were before a call; None if there was none such."""
        return len(self._rows) if turn == self.next_turn else self.answer_to(turn)

    def answer_to(self, turn: int) -> int | None:
        """The message that answered a call; None while there is none."""
        return self.invocations[turn - 1] if 1 <= turn <= len(self.invocations) else None

    def fields_of(self, message: int) -> Sequence[Fields]:
        """The stored fields of a message and its calls."""
        return self._rows[message]

    def position_of(self, event: int) -> int:
        """The message an event belongs to."""
        return bisect_right(self.whole.first_events, event) - 1

    def record_at(self, turn: int) -> CallRecord | None:
        """What a call was shown, where that was noted when it was made."""
        messages = self.messages_before(turn)
        return None if messages is None else self.calls.get(messages)

    def selection_at(self, messages: int) -> Selection | None:
        """Return what the recorded call with so many messages showed."""
        if messages not in self.ids:
            return None
        return self.chain.selection(self.ids[messages], messages, self.whole, self.own_text)

    def shown_at(self, messages: int) -> tuple[set[int], set[int]]:
        """Return the results that a recorded call showed complete, and those it showed in part."""
        trail = self.chain.trail(self.ids[messages])
        assert trail is not None
        complete, partial = (
            {self._number_of[event] for event in events if event in self._number_of}
            for events in (trail.complete, trail.partial)
        )
        return complete, partial

    def add_calls(
        self,
        places: Mapping[UUID, tuple[int, int]],
        records: Mapping[UUID, CallRecord],
        edges: Mapping[UUID, CallEdges],
        before: Mapping[UUID, UUID],
        missing: Mapping[UUID, Sequence[ShownEvent]],
    ) -> None:
        """Add recorded calls, or replace them.

        `places` have the number of events before each, and its turn, in the order of the events. A
        call that the branch's parent made at the fork is followed, but is none of its own: it has
        no record. One of which an edge is lost counts as not recorded.
        """
        self.places |= places
        self.chain.update(edges, before)
        self._changes = None
        for call, (events, _) in places.items():
            if call not in edges:
                continue
            messages = bisect_left(self.whole.first_events, events)
            self.ids[messages] = call
            if call in records and self.chain.trail(call) is not None:
                self.calls[messages] = records[call]
                self.missing[messages] = self._missing(missing.get(call, ()))

    def _missing(self, edges: Iterable[ShownEvent]) -> tuple[MissingResult, ...]:
        """Return what a call lacked, by its edges to the results."""
        known = self._number_of
        return tuple(
            MissingResult.of(known[edge.event], edge.fields)
            for edge in edges
            if edge.event in known
        )

    def lives_of(self, results: Iterable[int]) -> dict[int, ResultLife]:
        """Return what happened to these results from call to call, by their numbers."""
        if self._changes is None:
            self._changes = {}
            for call in self.places.keys() & self.chain.calls.keys():
                for edge in self.chain.calls[call].shown:
                    change = LifeChange(*self.places[call], edge.kind)
                    self._changes.setdefault(edge.event, []).append(change)
        events = self.whole.results.event
        return {
            result: ResultLife(tuple(sorted(self._changes.get(events[result], ()))))
            for result in results
        }

    def previous_selection(self, messages: int, policy: str) -> Selection | None:
        """Return what the last answered call before a call showed, if it has this policy."""
        roles, looked_at = self.whole.roles, 0
        for place in range(messages - 1, 0, -1):
            if roles[place] in ("assistant", "user"):
                looked_at += 1
                record = self.calls.get(place)
                if record and roles[place] == "assistant":
                    known = record.settings.policy == policy
                    return self.selection_at(place) if known else None
                if looked_at == LOOKED_BACK:
                    break
        return None

    def own_text(self, event: int) -> str:
        """Return the own text of a message, a result or a call's arguments, by its event."""
        message, call = self.whole.place_of(event)
        if call < 0:
            return self.text_of(message)
        return arguments_of(self.whole.messages[message] or {}, call)

    def settings_by_turn(self, rest: RenderSettings) -> SettingsByTurn:
        """The settings of every call; `rest` are those of calls that nothing is known of."""
        known = ((turn, self.record_at(turn)) for turn in range(1, self.next_turn + 1))
        return SettingsByTurn.of(
            ((turn, record.settings) for turn, record in known if record), rest
        )

    def unbilled(self) -> list[int]:
        """The first events of answers whose calls came with no bill so far."""
        return [
            self.whole.first_events[message]
            for message in self.invocations
            if (record := self.calls.get(message)) and record.billed is None
        ]

    def used_at(self, turn: int) -> list[int]:
        """The results that a turn's message drew on, each once."""
        return sorted({use.result for use in self.uses_at(turn)})

    def uses_at(self, turn: int) -> Sequence[Use]:
        """Return what a turn's message used, operation by operation."""
        message = self.answer_to(turn)
        return () if message is None else uses_of(self.whole, message)

    def text_of(self, message: int) -> str:
        """The text of a message."""
        original = self.whole.messages[message]
        return content_text(original.get("content")) if original else ""

    def needed_at(self, turn: int) -> tuple[int, ...]:
        """The results whose recall a turn's message measures; texts are read for it when asked."""
        for message in range(self._recalled, len(self.whole)):
            for event in self._recall.add(self.whole.messages[message] or {}):
                self._needed.setdefault(event.turn, []).append(event.result)
        self._recalled = len(self.whole)
        return tuple(self._needed.get(turn, ()))

    def output_of(self, turn: int) -> int:
        """Tokens of a call's answer; 0 while there is none."""
        message = self.answer_to(turn)
        return 0 if message is None else sum(int(row["tokens"]) for row in self._rows[message])

    def total_before(self, turn: int) -> int:
        """Tokens of the whole history before a call; 0 before the first one."""
        messages = self.messages_before(turn)
        return self.whole.totals[messages - 1] if messages else 0

    def results_before(self, turn: int) -> int:
        """How many results there were before a call."""
        return self.whole.results_before(self.messages_before(turn) or 0)

    def arguments_of(self, result: int) -> str:
        """The arguments of the call a result answered."""
        call = self._call_of(result)
        return str(call["text"]) if call else ""

    def _call_of(self, result: int) -> Fields | None:
        event = self.whole.results.call_event[result]
        message = self.whole.results.call_message[result]
        if event == NO_CALL:
            return None
        return self._rows[message][event - self.whole.first_events[message]]

    def holders_of(self, value: str) -> list[int]:
        """Every result that holds a value, by the rules of Tool-Flow Analysis."""
        found = []
        for result, message in enumerate(self.whole.results.message):
            text = self.text_of(message)
            if value in text and value in extract_values(text):
                found.append(result)
        return found

    def history_before(self, messages: int) -> History:
        """The history as it was after its first `messages` messages; do not keep it.

        The last ones asked for are kept here, with what renderings learnt of them.
        """
        if messages == len(self.whole):
            return self.whole
        if messages not in self._earlier:
            self._earlier[messages] = earlier_history(self.whole, messages)
        self._earlier.move_to_end(messages)
        while len(self._earlier) > MOST_EARLIER:
            self._earlier.popitem(last=False)
        return self._earlier[messages]

    def render(
        self,
        history: History,
        settings: RenderSettings,
        compact: Compact | None = None,
        previous: Selection | None = None,
    ) -> RenderedCall:
        """Return what a call with that history shows, as if all before it had been made so.

        `compact` gives compactions that are kept, `previous` is what the last answered call showed,
        where that is known.
        """
        if not policy_named(settings.policy).sizes_itself:
            return self.render_after(None, history, settings, compact)
        known = previous or self._followed.get(settings)
        if known is not None and not self._is_answered(known.messages, len(history)):
            known = None
        rendered = self.render_after(known, history, settings, compact, follows=True)
        self._followed[settings] = rendered.selection
        return rendered

    def _is_answered(self, messages: int, end: int) -> bool:
        """Return whether a message before `end` answers the call with so many messages."""
        return messages < end and self.whole.roles[messages] == "assistant"

    def render_after(
        self,
        previous: Selection | None,
        history: History,
        settings: RenderSettings,
        compact: Compact | None = None,
        *,
        follows: bool = False,
    ) -> RenderedCall:
        """Return what a call with that history shows that goes on from a selection."""
        return render_call(
            history,
            **self._inputs(settings),
            embedder=lambda: self._embedder,
            agent_defaults=settings.agent_defaults,
            compact=compact,
            summaries=self._summaries_for(settings.policy),
            previous=previous,
            follows=follows,
        )

    def recorded(
        self, history: History, settings: RenderSettings, selection: Selection
    ) -> RenderedCall:
        """Return a recorded call with what it showed: nothing is selected."""
        share = settings.parameters.query_task_share
        relevance = Relevance(history, lambda: self._embedder, self.text_of, share)
        view = policy_input(history, **self._inputs(settings), relevance_of=relevance)
        return RenderedCall(view, selection)

    def _inputs(self, settings: RenderSettings) -> dict[str, Any]:
        return {
            "budget": settings.budget,
            "model_window": settings.window or None,
            "policy": settings.policy,
            "parameters": settings.parameters,
            "pins": settings.pins,
            "counter": self._counter,
            "text_of": self.text_of,
        }

    def _summaries_for(self, policy: str) -> Summaries | None:
        """Return the stored summaries for a policy that shows any; none is written."""
        if not policy_named(policy).needs_model:
            return None
        return summaries_for(policy, self.summaries, self.summary_model, write=False)

    def grow(self, history: History, messages: int) -> None:
        """Appends to a history what follows in it, up to its first `messages` messages."""
        for rows in self._rows[len(history) : messages]:
            append_stored(history, rows, self._embedder.name, self._drawn)
            pause()

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        rows = ROW_BYTES * self.whole.events
        earlier = sum(history.nbytes for history in list(self._earlier.values()))
        known = self._embedder.nbytes + self._tracking.nbytes + self.chain.nbytes
        return self.whole.nbytes + earlier + rows + known

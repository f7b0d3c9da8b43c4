"""What every past model call of a branch showed, recomputed from what is stored of it.

Nothing here is stored: a call's rendering follows from the messages before it and the settings,
by today's rules. What it was shown when it was made is noted with its answer (`record_at`).
A `BranchReplay` reads the stored events once and only grows; it is a cache of one process.
Long because one class holds what is known of a branch, which grows in one step.
"""

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile
from typing import Final

from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.render_call import Compact, RenderedCall, render_call
from contextrender_bridge.engine.call.settings import RenderSettings, SettingsByTurn
from contextrender_bridge.engine.history.event_decoding import Drawn, Fields, append_stored
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
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.policies import policy_named
from contextrender_bridge.engine.replay import pause
from contextrender_bridge.engine.replay.recall_measures import RecallTrace
from contextrender_bridge.engine.text.tokens import TokenCounter, content_text
from contextrender_bridge.engine.text.values import extract_values

MOST_EARLIER: Final = 3
ROW_BYTES: Final = 1_500
"""A stored event's fields without its text, which the history shares, but with its vector's."""


class BranchReplay:
    """One branch's stored events, and what its calls showed.

    `calls` are those that are known, by how many messages they had. `text_totals` are the tokens of
    the texts among the first 0, 1, 2 ... messages, those of results and calls left out.
    Only the holder of `lock` may use it.
    """

    def __init__(self, embedder: Embedder, counter: TokenCounter) -> None:
        self.lock = threading.Lock()
        self.whole = History()
        self.whole.reuse = RememberingReuse()
        self.whole.followed = self._tracking = RememberingTracking()
        self.summaries: SummaryStore = SummariesInMemory()
        self.summary_model = SummaryModel()
        self._embedder = RememberingEmbedder(embedder)
        self._counter = counter
        self._rows: list[list[Fields]] = []
        self.invocations: list[int] = []
        self._recall = RecallTrace()
        self._recalled = 0
        self._needed: dict[int, list[int]] = {}
        self.text_totals = [0]
        self._answers: dict[tuple[str, str], list[int]] = {}
        self._answered = 0
        self._earlier: OrderedDict[int, History] = OrderedDict()
        self._followed: dict[RenderSettings, Selection] = {}
        self._drawn: Drawn | None = None
        self.calls: dict[int, CallRecord] = {}
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

    def extend(self, stored: Iterable[Fields], first: int, drawn: Drawn | None = None) -> None:
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
        for message in range(len(self.text_totals) - 1, len(self.whole)):
            self.text_totals.append(self.text_totals[-1] + self.whole.text_tokens[message])
        for result in range(self._answered, len(self.whole.results)):
            if (called := self._call_of(result)) is not None:
                self._answers.setdefault((called["name"], called["text"]), []).append(result)
        self._answered = len(self.whole.results)

    def messages_before(self, turn: int) -> int | None:
        """How many messages there were before a call; None if there was none such."""
        return len(self._rows) if turn == self.next_turn else self._answer(turn)

    def _answer(self, turn: int) -> int | None:
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

    def settings_by_turn(self, rest: RenderSettings) -> SettingsByTurn:
        """The settings of every call; `rest` are those of calls that nothing is known of."""
        known = ((turn, self.record_at(turn)) for turn in range(1, self.next_turn + 1))
        return SettingsByTurn.of(
            ((turn, record.settings) for turn, record in known if record), rest
        )

    def answers_from(self, event: int) -> list[int]:
        """The first events of the answers from an event on."""
        firsts = (self.whole.first_events[message] for message in reversed(self.invocations))
        return list(takewhile(lambda first: first >= event, firsts))

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

    def uses_at(self, turn: int) -> list[Use]:
        """What a turn's message drew on, operation by operation."""
        if (message := self._answer(turn)) is None:
            return []
        first = self.whole.first_events[message]
        uses = self.whole.reuse.uses
        start = bisect_left(uses, first, key=lambda use: use.operation)
        stop = bisect_left(uses, first + len(self._rows[message]), key=lambda use: use.operation)
        return uses[start:stop]

    def asked_again_at(self, turn: int) -> set[int]:
        """The latest earlier results of calls that a turn's message makes again, word for word."""
        if (message := self._answer(turn)) is None:
            return set()
        found = set()
        for call in self._rows[message][1:]:
            earlier = self._answers.get((call["name"], call["text"]), [])
            at = bisect_left(earlier, message, key=lambda r: self.whole.results.message[r])
            if at:
                found.add(earlier[at - 1])
        return found

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
        message = self._answer(turn)
        return 0 if message is None else sum(int(row["tokens"]) for row in self._rows[message])

    def total_before(self, turn: int) -> int:
        """Tokens of the whole history before a call; 0 before the first one."""
        messages = self.messages_before(turn)
        return self.whole.totals[messages - 1] if messages else 0

    def user_before(self, messages: int) -> int:
        """The last user message among the first messages, or -1."""
        roles = self.whole.roles
        return next((at for at in range(messages - 1, -1, -1) if roles[at] == "user"), -1)

    def results_before(self, turn: int) -> int:
        """How many results there were before a call."""
        return self.whole.results_before(self.messages_before(turn) or 0)

    def call_text_of(self, result: int) -> str:
        """The name and arguments of the call a result answered."""
        call = self._call_of(result)
        return f"{call['name']}\n{call['text']}" if call else ""

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
            budget=settings.budget,
            model_window=settings.window or None,
            policy=settings.policy,
            parameters=settings.parameters,
            agent_defaults=settings.agent_defaults,
            pins=settings.pins,
            counter=self._counter,
            embedder=lambda: self._embedder,
            text_of=self.text_of,
            compact=compact,
            summaries=self._summaries_for(settings.policy),
            previous=previous,
            follows=follows,
        )

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
        return self.whole.nbytes + earlier + rows + self._embedder.nbytes + self._tracking.nbytes

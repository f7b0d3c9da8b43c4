"""The newest calls of a branch, from its last events alone: what a page draws first.

What needs the texts of the whole session (which results were needed, seen or missed) is not told.
"""

import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, takewhile

from contextrender_bridge.engine.call.call_record import CallRecord, Standing
from contextrender_bridge.engine.history.event_decoding import Drawn, Fields, is_event, kind_of
from contextrender_bridge.engine.replay.outline import (
    OMITTED_CHARACTERS,
    SHOWN_CHARACTERS,
    MessageLine,
    beginning,
    call_line,
)
from contextrender_bridge.engine.replay.recorded import told_step
from contextrender_bridge.engine.replay.replayed_calls import ReplayedCall


@dataclass(slots=True, frozen=True)
class GlimpsedCall:
    """A call as it was noted, and the results that its turn's message drew on, as far as known."""

    step: ReplayedCall
    record: CallRecord
    uses: list[int]


@dataclass
class Glimpse:
    """The last events of a branch that has `turns` answered calls and `count` results in all.

    `results` are the fields of the last results, the first of them number `first`; `noted` are its
    calls by how many messages they had.
    """

    turns: int
    count: int
    events: Sequence[Fields]
    drawn: Drawn
    noted: Mapping[int, CallRecord] = field(default_factory=dict)

    @cached_property
    def results(self) -> list[Fields]:
        """Those among the events, oldest first."""
        return [event for event in self.events if kind_of(event) == "result"]

    @property
    def first(self) -> int:
        """The number of the first of them."""
        return self.count - len(self.results)

    @property
    def waiting(self) -> bool:
        """Whether the model has yet to answer what came last."""
        return bool(self.events) and kind_of(self.events[-1]) not in SPOKEN

    def answers(self) -> list[int]:
        """The numbers of the answers among the events."""
        return [event["number"] for event in self.events if kind_of(event) == "assistant"]

    def calls(self) -> list[GlimpsedCall]:
        """Those that were noted, oldest first; the newest may not be answered yet."""
        answers = [event for event in self.events if kind_of(event) == "assistant"]
        found = []
        for turn, answer in enumerate(answers, self.turns - len(answers) + 1):
            found += self._call(turn, answer["position"], self._uses(answer["position"]))
        if self.waiting:
            found += self._call(self.turns + 1, self.events[-1]["position"] + 1, [])
        return found

    def _call(self, turn: int, messages: int, uses: list[int]) -> list[GlimpsedCall]:
        """The call with so many messages, if it was noted."""
        if (record := self.noted.get(messages)) is None:
            return []
        return [
            GlimpsedCall(told_step(turn, messages, record, Standing.noted(record)), record, uses)
        ]

    def _uses(self, position: int) -> list[int]:
        """What a message drew on, of the results among the events."""
        start = bisect_left(self.events, position, key=lambda event: int(event["position"]))
        own = takewhile(lambda event: event["position"] == position, self.events[start:])
        drawn = (source for event in own for source, _ in self.drawn.get(event["number"], ()))
        numbers = [event["number"] for event in self.results] or [sys.maxsize]
        places = {bisect_left(numbers, source) for source in drawn if source >= numbers[0]}
        return sorted(self.first + place for place in places)


SPOKEN = frozenset({"assistant", "call"})
"""An event of the model's own."""


def whole_end(stored: Sequence[Fields | None], start: int) -> list[Fields]:
    """The last of these events, back to one that is lost; the first is number `start`."""
    found: list[Fields] = []
    for back, fields in enumerate(reversed(stored), 1):
        if fields is None or not is_event(fields, start + len(stored) - back):
            break
        found.append(fields)
    return found[::-1]


def noted_lines(events: Sequence[Fields], record: CallRecord) -> list[MessageLine]:
    """The last messages before a call, each as far as its record tells what was shown of it.

    `events` are the last ones before the call; the beginning of a message that lacks its first
    one is left out.
    """
    messages = list(_whole_messages(events))
    states = _states(messages, record)
    answers = {
        message[0]["call_id"]: message[0]["position"] for message in messages if _is_result(message)
    }
    kept, outside = _kept_texts(messages, record)
    return [_line(message, states, answers, kept, outside) for message in messages]


def _whole_messages(events: Iterable[Fields]) -> Iterator[list[Fields]]:
    for _, group in groupby(events, key=lambda fields: fields["position"]):
        message = list(group)
        if kind_of(message[0]) != "call":
            yield message


def _is_result(message: Sequence[Fields]) -> bool:
    return kind_of(message[0]) == "result"


def _states(messages: Sequence[Sequence[Fields]], record: CallRecord) -> dict[int, str]:
    """How each result among them stood, by position: the last of them is the last there was."""
    standing = Standing.noted(record)
    results = [message[0]["position"] for message in messages if _is_result(message)]
    found = {}
    for number, position in enumerate(results, record.results - len(results)):
        shown = "whole" if number in standing.complete else "omitted"
        found[position] = "excerpt" if number in standing.replaced else shown
    return found


def _kept_texts(
    messages: Sequence[Sequence[Fields]], record: CallRecord
) -> tuple[set[int], frozenset[int]]:
    """The texts in view, as many of the newest as `record` has room for; those beside the budget.

    Whole oldest turns leave first (`py_bridge/contextrender_bridge/engine/plan/plan.py`).
    """
    heads = [message[0] for message in messages]
    users = [head["position"] for head in heads if kind_of(head) == "user"]
    leading = {head["position"] for head in heads if kind_of(head) == "system"}
    outside = frozenset([*leading, *users[-1:]])
    kept, left = set(outside), record.retained
    for head in reversed(heads):
        if kind_of(head) == "result" or head["position"] in outside:
            continue
        left -= head["tokens"]
        if left < 0:
            break
        kept.add(head["position"])
    return kept, outside


def _line(
    message: Sequence[Fields],
    states: dict[int, str],
    answers: dict[str, int],
    kept: set[int],
    outside: frozenset[int],
) -> MessageLine:
    head, *rest = message
    position = head["position"]
    calls = []
    for fields in rest:
        result = answers.get(fields["call_id"])
        shown = result is not None and states[result] != "omitted"
        calls.append(call_line(fields, result, shown))
    speaks = bool(head["tokens"]) or not rest
    stands = (speaks and position in kept) or any(call.shown for call in calls)
    state = states.get(position, "whole" if stands else "omitted")
    limit = OMITTED_CHARACTERS if state == "omitted" else SHOWN_CHARACTERS
    text, whole = ("", False) if state == "excerpt" else beginning(head["text"], limit)
    return MessageLine(
        position,
        "tool" if position in states else head["role"],
        head.get("name", ""),
        head["turn"],
        head["tokens"],
        state,
        position in outside,
        text,
        whole,
        calls,
    )

"""The newest calls of a branch, from its last events alone: what a page draws first.

What needs the texts of the whole session (which results were needed, seen or missed) is not told.
"""

import sys
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

from engine.call.facts import CallFact
from engine.history.stored import Drawn, Fields, is_event, kind_of


@dataclass(slots=True, frozen=True)
class GlimpsedCall:
    """A call as it was noted, and the results that its turn's message drew on, as far as known."""

    turn: int
    fact: CallFact
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
    noted: Mapping[int, CallFact] = field(default_factory=dict)

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
            if fact := self.noted.get(answer["position"]):
                found.append(GlimpsedCall(turn, fact, self._uses(answer["position"])))
        if self.waiting and (fact := self.noted.get(self.events[-1]["position"] + 1)):
            found.append(GlimpsedCall(self.turns + 1, fact, []))
        return found

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

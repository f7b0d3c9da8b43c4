"""The newest calls of a branch, made from its last events and its stored calls alone.

A `BranchReplay` makes the same calls, but it reads all events of the branch first.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contextrender_bridge.base.usage import NOTHING_USED
from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.missing_results import MissingResult
from contextrender_bridge.engine.history.event_decoding import Fields, StoredUses, kind_of
from contextrender_bridge.engine.plan.selection_chain import EdgeTrail
from contextrender_bridge.engine.plan.selection_edges import CallEdge
from contextrender_bridge.engine.replay.branch_replay import CallPosition
from contextrender_bridge.engine.replay.replayed_calls import ReplayedCall, call_of_record


@dataclass(frozen=True)
class BranchEnd:
    """The last events of a branch that has `turns` answers.

    `rows` has the stored fields of these events. `result_events` has the event number of every
    result of the branch, in order. `uses` has the uses of results by these events.
    """

    turns: int
    rows: Sequence[Fields]
    result_events: Sequence[int]
    uses: StoredUses

    @property
    def awaits_answer(self) -> bool:
        """True if the last event is not of an answer of the model."""
        return bool(self.rows) and kind_of(self.rows[-1]) not in ("assistant", "call")

    def call_positions(self) -> list[CallPosition]:
        """Return the positions of the calls that these events answer, and of a call after them."""
        answers = answers_among(self.rows)
        first_turn = self.turns - len(answers) + 1
        positions = [CallPosition(event, turn) for turn, event in enumerate(answers, first_turn)]
        if self.awaits_answer:
            positions.append(CallPosition(self.rows[-1]["number"] + 1, self.turns + 1))
        return positions

    def results(self) -> list[tuple[Fields, str]]:
        """Return the results among the events, each with the name of its tool."""
        results: list[tuple[Fields, str]] = []
        names: dict[str, str] = {}  # by the id of the call
        for row in self.rows:
            if kind_of(row) == "call":
                names[row.get("call_id", "")] = row.get("name", "")
            elif kind_of(row) == "result":
                own_name: str = row.get("name", "")
                results.append((row, names.get(row.get("call_id", ""), own_name)))
        return results

    def numbers_of(self, events: Iterable[int]) -> list[int]:
        """Return the numbers of the results among these events, in order."""
        numbers: set[int] = set()
        for event in events:
            number = bisect_left(self.result_events, event)
            if number < len(self.result_events) and self.result_events[number] == event:
                numbers.add(number)
        return sorted(numbers)

    def used_at(self, position: CallPosition) -> list[int]:
        """Return the numbers of the results that the answer to a call used."""
        own_rows = self.rows[position.events - self.rows[0]["number"] :]
        answer_events = [
            row["number"] for row in own_rows if row["position"] == own_rows[0]["position"]
        ]
        uses = (use for event in answer_events for use in self.uses.get(event, ()))
        return self.numbers_of(result_event for result_event, _ in uses)

    def call(
        self,
        position: CallPosition,
        record: CallRecord,
        trail: EdgeTrail,
        miss_edges: Iterable[CallEdge],
    ) -> ReplayedCall:
        """Return a recorded call without its usage.

        `trail` is the state of its prompt, and `miss_edges` lead to the results that it missed.
        """
        missing_results = tuple(
            MissingResult.of(number, edge.fields)
            for edge in miss_edges
            for number in self.numbers_of([edge.event])
        )
        rows = self.rows[position.events - self.rows[0]["number"] :]
        return call_of_record(
            record,
            turn=position.turn,
            messages=rows[0]["position"] if rows else self.rows[-1]["position"] + 1,
            complete=self.numbers_of(trail.complete),
            partial=self.numbers_of(trail.partial),
            missing_results=missing_results,
            usage=NOTHING_USED,
            full_usage=NOTHING_USED,
            uses=len(self.used_at(position)),
        )


def answers_among(rows: Iterable[Fields]) -> list[int]:
    """Return the number of the first event of each answer among these events."""
    return [row["number"] for row in rows if kind_of(row) == "assistant"]

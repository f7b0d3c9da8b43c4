"""When results left the prompts of calls, and which of their parts stood there, as was noted."""

from bisect import bisect_right
from collections.abc import Set
from typing import Final

from contextrender_bridge.engine.call.call_record import Standing, unpacked
from contextrender_bridge.engine.call.settings import RenderSettings
from contextrender_bridge.engine.replay.branch_replay import BranchReplay

Told = list[tuple[int, tuple[int, ...]]]
"""Results, and which of their characters stood with one result's text, as runs."""
PART_BYTES: Final = 500


class Parts:
    """What each call had in part; it grows with its past.

    A call notes what differs from the call before, so it tells nothing of what an earlier one had
    that was not noted, or was made with other settings.
    """

    def __init__(self, past: BranchReplay) -> None:
        self._past = past
        self._noted: dict[int, list[tuple[int, Told]]] = {}
        self._starts: list[int] = []
        self._settings: RenderSettings | None = None
        self._turns = 0

    def at(self, turn: int, places: Set[int]) -> dict[int, list[tuple[int, ...]]]:
        """What stood of results with the texts of `places` at an answered call, as far as known."""
        self._grow()
        start = self._starts[bisect_right(self._starts, turn) - 1]
        found: dict[int, list[tuple[int, ...]]] = {}
        for place in places & self._noted.keys():
            noted = self._noted[place]
            since, told = noted[bisect_right(noted, turn, key=lambda one: one[0]) - 1]
            if start <= since <= turn:
                for result, shown in told:
                    found.setdefault(result, []).append(shown)
        return found

    def _grow(self) -> None:
        for turn in range(self._turns + 1, len(self._past.invocations) + 1):
            record = self._past.record_at(turn)
            settings = record.settings if record else None
            if settings is None or settings != self._settings:
                self._starts.append(turn)
            self._settings = settings
            told: dict[int, Told] = {}
            for place, *part in record.parts if record else ():
                told.setdefault(place, []).extend((one, unpacked(part[1:])) for one in part[:1])
            for place, results in told.items():
                self._noted.setdefault(place, []).append((turn, results))
        self._turns = len(self._past.invocations)

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return PART_BYTES * sum(map(len, self._noted.values()))


class Stays:
    """The calls at which each result left, the earliest first; it grows with its past."""

    def __init__(self, past: BranchReplay) -> None:
        self._past = past
        self._left: dict[int, list[int]] = {}
        self._standing: frozenset[int] = frozenset()
        self._turns = 0

    def left_at(self, result: int, turn: int) -> int | None:
        """The last call up to that of `turn` at which a result left the view."""
        for number in range(self._turns + 1, len(self._past.invocations) + 1):
            now = self._in_view(number)
            for gone in self._standing - now:
                self._left.setdefault(gone, []).append(number)
            self._standing = now
        self._turns = len(self._past.invocations)
        if turn > self._turns and result in self._standing - self._in_view(turn):
            return turn
        known = self._left.get(result, ())
        place = bisect_right(known, turn)
        return known[place - 1] if place else None

    def _in_view(self, turn: int) -> frozenset[int]:
        record = self._past.record_at(turn)
        if record is None:
            return self._standing
        noted = Standing.noted(record)
        return noted.complete | noted.replaced

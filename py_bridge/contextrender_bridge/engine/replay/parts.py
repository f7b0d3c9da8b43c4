"""Which parts of results stood in the prompts of calls, as was noted."""

from bisect import bisect_right
from collections.abc import Set
from typing import Final

from contextrender_bridge.engine.call.call_record import unpacked
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

"""Which settings the model calls of a branch were made with, turn by turn."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from engine.call.request import RenderSettings


@dataclass(slots=True, frozen=True)
class SettingsByTurn:
    """Settings from a turn on, where they changed; those of calls before the first are `rest`."""

    rest: RenderSettings
    changes: tuple[tuple[int, RenderSettings], ...] = ()

    @classmethod
    def of(cls, calls: Iterable[tuple[int, RenderSettings]], rest: RenderSettings) -> Self:
        """From the calls that are known, by turn, in order."""
        changes: list[tuple[int, RenderSettings]] = []
        for turn, settings in calls:
            if not changes or changes[-1][1] != settings:
                changes.append((turn, settings))
        return cls(rest, tuple(changes))

    def at(self, turn: int) -> RenderSettings:
        """The settings of a call: if it is not known, those of the last known one before it."""
        known = [settings for first, settings in self.changes if first <= turn]
        return known[-1] if known else self.rest

    def before(self, turn: int | None) -> RenderSettings:
        """The settings of a call; without a turn, those that the next one has unless it says so."""
        return self.rest if turn is None else self.at(turn)

    def updated(self, changes: Mapping[str, Any]) -> Self:
        """The same with something changed in all of them. Raises InvalidRequest."""
        return type(self)(
            self.rest.updated(changes),
            tuple((turn, settings.updated(changes)) for turn, settings in self.changes),
        )

"""Which settings each model call of a branch was made with: noted as they change, turn by turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from contextrender_bridge.errors import InvalidRequest

from engine.call.request import RenderSettings
from engine.parameters import Parameters

Note = dict[str, Any]
"""Settings from a `turn` on: `budget`, `policy`, and the `parameters` that are not the default."""


@dataclass(slots=True, frozen=True)
class Called:
    """Settings by turn; those of calls that nothing is noted of are `rest`."""

    rest: RenderSettings
    changes: tuple[tuple[int, RenderSettings], ...] = ()

    def at(self, turn: int) -> RenderSettings:
        """The settings of a call."""
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


def note_of(turn: int, settings: RenderSettings) -> Note:
    """The note of a call."""
    usual = Parameters()
    changed = {
        field.name: value
        for field in fields(usual)
        if (value := getattr(settings.parameters, field.name)) != getattr(usual, field.name)
    }
    return {
        "turn": turn,
        "budget": settings.budget,
        "policy": settings.policy,
        "parameters": changed,
        **({"live": True} if settings.live else {}),
        **settings.pins.to_json(),
    }


def noted(notes: Sequence[Note], turn: int, settings: RenderSettings) -> list[Note]:
    """The notes of a branch after its newest call, at `turn`; the same if that says nothing new."""
    earlier = [note for note in notes if note["turn"] < turn]
    note = note_of(turn, settings)
    if earlier and {**earlier[-1], "turn": turn} == note:
        return earlier
    return [*earlier, note]


def check_notes(notes: Sequence[Any]) -> list[Note]:
    """Notes from outside, as `note_of` makes them. Raises InvalidRequest."""
    checked: list[Note] = []
    for note in notes:
        turn = note.get("turn") if isinstance(note, Mapping) else None
        if isinstance(turn, bool) or not isinstance(turn, int) or turn < 1:
            raise InvalidRequest("a note of settings needs its turn, from 1")
        if checked and checked[-1]["turn"] >= turn:
            raise InvalidRequest("notes of settings must be in the order of their turns")
        settings = {name: value for name, value in note.items() if name != "turn"}
        checked.append(note_of(turn, RenderSettings().updated(settings)))
    return checked


def called_of(lines: Sequence[Sequence[Note]], rest: RenderSettings) -> Called:
    """From the notes of a branch, after those of the branches it came from, the first one first."""
    notes: list[Note] = []
    for own in lines:
        if own:
            notes = [note for note in notes if note["turn"] < own[0]["turn"]]
        notes += own
    return Called(rest, tuple((note["turn"], _settings(note)) for note in notes))


def _settings(note: Note) -> RenderSettings:
    return RenderSettings().updated({name: value for name, value in note.items() if name != "turn"})

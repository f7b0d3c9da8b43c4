"""Frozen renderings: what a call showed, kept so that later calls repeat it and append to it.

What is frozen before an invocation follows from the messages before it alone: it is as if every
invocation so far had been rendered. What is kept of it saves doing so again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Self

from engine.history.kept_text import ALL_TEXT, KeptText
from engine.history.replacement import Replacement
from engine.parameters import Parameters
from engine.pins import NO_PINS, Pins

FORMAT: Final = "5"
"""Of what is kept; what was kept in another format is made anew."""

Texts = Mapping[int, Replacement]


@dataclass(slots=True, frozen=True)
class Frozen:
    """What was shown at the invocation that had the first `messages` messages.

    `text` is what stayed of the text, `complete` and `excerpts` the results shown, by number, and
    `calls` those of their calls that are shortened. All of it is empty while everything fits.
    `since` is `messages` as it was when something last had to leave, 0 if nothing ever had.
    `breakpoints` are positions up to which nothing has changed since anything but the end last did.
    """

    messages: int
    over: bool = False
    text: KeptText = ALL_TEXT
    complete: tuple[int, ...] = ()
    excerpts: Texts = field(default_factory=dict)
    calls: Texts = field(default_factory=dict)
    since: int = 0
    breakpoints: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        texts = (self.excerpts, self.calls, self.text.cut)
        held = sum(len(made.text) + 200 for each in texts for made in each.values())
        return 300 + held + 40 * (len(self.complete) + len(self.text.left))

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "messages": self.messages,
            "over": self.over,
            "left": list(self.text.left),
            "cut": _texts_to_json(self.text.cut),
            "complete": list(self.complete),
            "excerpts": _texts_to_json(self.excerpts),
            "calls": _texts_to_json(self.calls),
            "since": self.since,
            "breakpoints": list(self.breakpoints),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """From what `to_json` gave."""
        return cls(
            data["messages"],
            data["over"],
            KeptText(tuple(data["left"]), _texts_from_json(data["cut"])),
            tuple(data["complete"]),
            _texts_from_json(data["excerpts"]),
            _texts_from_json(data["calls"]),
            data["since"],
            tuple(data["breakpoints"]),
        )


NOTHING_YET = Frozen(-1)


@dataclass(slots=True, frozen=True)
class FrozenTrail:
    """The latest frozen rendering, and the one before it that the model surely was called with.

    The latest is not passed on from when no assistant message follows it: no model answered it.
    """

    answered: Frozen = NOTHING_YET
    latest: Frozen = NOTHING_YET

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return self.answered.nbytes + self.latest.nbytes

    def before(self, messages: int) -> "FrozenTrail":
        """What of it an earlier invocation, with that many messages, may know."""
        answered, latest = (
            one if one.messages <= messages else NOTHING_YET for one in (self.answered, self.latest)
        )
        return FrozenTrail(answered, latest)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"answered": self.answered.to_json(), "latest": self.latest.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """From what `to_json` gave."""
        return cls(Frozen.from_json(data["answered"]), Frozen.from_json(data["latest"]))


def frozen_key(budget: int, parameters: Parameters, pins: Pins = NO_PINS) -> str:
    """What a trail is kept under: one budget, one set of shares, and what is pinned."""
    names = ("frozen_share", "thrifty", "newest_share", "cache_minutes")
    shares = [getattr(parameters, name) for name in names]
    key = "/".join([FORMAT, str(budget), *map(repr, shares)])
    if not pins:
        return key
    return f"{key}/{sha256(json.dumps(pins.to_json()).encode()).hexdigest()}"


def _texts_to_json(texts: Texts) -> list[list[Any]]:
    return [[key, made.text, made.tokens] for key, made in texts.items()]


def _texts_from_json(data: list[list[Any]]) -> dict[int, Replacement]:
    return {key: Replacement(text, tokens) for key, text, tokens in data}

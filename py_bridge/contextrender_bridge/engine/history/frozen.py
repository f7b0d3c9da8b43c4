"""Frozen renderings: what a call showed, kept so that later calls repeat it and append to it.

What is frozen before an invocation follows from the messages before it alone: it is as if every
invocation so far had been rendered. What is kept of it saves doing so again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Self

from contextrender_bridge.engine.parameters import NO_PINS, Parameters, Pins


@dataclass(slots=True, frozen=True)
class Substitute:
    """A text that replaces a result, its tokens as a message, and its kind.

    `shown` are the characters of the result that stand in it, as runs, where that is known.
    """

    text: str
    tokens: int
    kind: str = "excerpt"
    shown: tuple[int, ...] = field(default=(), compare=False)


@dataclass(slots=True, frozen=True)
class TextSelection:
    """What stays of the text: all but the messages that `left`, those `cut` as they were cut."""

    left: tuple[int, ...] = ()
    cut: Mapping[int, Substitute] = field(default_factory=dict)


ALL_TEXT: Final = TextSelection()


FORMAT: Final = "6"
"""Of what is kept; what was kept in another format is made anew."""

Texts = Mapping[int, Substitute]


@dataclass(slots=True, frozen=True)
class RestoredText:
    """What came back behind a result's own text: its text, its tokens, and the results it is of.

    `shown` are the characters of each of these, as in `Substitute`.
    """

    text: str
    tokens: int
    results: tuple[int, ...]
    shown: tuple[tuple[int, ...], ...] = field(default=(), compare=False)


@dataclass(slots=True, frozen=True)
class Frozen:
    """What was shown at the invocation that had the first `messages` messages.

    `text` is what stayed of the text, `complete` and `excerpts` the results shown, by number, and
    `calls` those of their calls that are shortened. All of it is empty while everything fits.
    `since` is `messages` as it was when something last had to leave, 0 if nothing ever had.
    `breakpoints` are positions up to which nothing has changed since anything but the end last did.
    `budget` is the step's, in tokens, 0 for as it starts; `faulted` tells that the turn before had
    said what stood nowhere in its prompt, and `added` what came back, by the result it stands with.
    """

    messages: int
    over: bool = False
    text: TextSelection = ALL_TEXT
    complete: tuple[int, ...] = ()
    excerpts: Texts = field(default_factory=dict)
    calls: Texts = field(default_factory=dict)
    since: int = 0
    breakpoints: tuple[int, ...] = ()
    budget: float = 0.0
    faulted: bool = False
    added: Mapping[int, RestoredText] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        texts = (self.excerpts, self.calls, self.text.cut)
        held = sum(len(made.text) + 200 for each in texts for made in each.values())
        held += sum(len(made.text) + 200 for made in self.added.values())
        return 300 + held + 40 * (len(self.complete) + len(self.text.left))

    def parts_since(self, last: "Frozen") -> list[tuple[int, ...]]:
        """What stands otherwise than `last` had it, in part: the result with whose text it stands,
        the result that it is of, and that one's characters, as runs. The first alone: no more."""
        found: list[tuple[int, ...]] = []
        for place, made in self.excerpts.items():
            if last.excerpts.get(place) != made:
                found.append((place, place, *made.shown))
        for place, back in self.added.items():
            if last.added.get(place) != back:
                shown = back.shown or [()] * len(back.results)
                pairs = zip(back.results, shown, strict=True)
                found += [(place, result, *runs) for result, runs in pairs]
        gone = last.added.keys() - self.added.keys() - self.excerpts.keys()
        return found + [(place,) for place in sorted(gone)]

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
            "budget": self.budget,
            "faulted": self.faulted,
            "added": [
                [result, made.text, made.tokens, list(made.results)]
                for result, made in self.added.items()
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """From what `to_json` gave."""
        return cls(
            data["messages"],
            data["over"],
            TextSelection(tuple(data["left"]), _texts_from_json(data["cut"])),
            tuple(data["complete"]),
            _texts_from_json(data["excerpts"]),
            _texts_from_json(data["calls"]),
            data["since"],
            tuple(data["breakpoints"]),
            data["budget"],
            data["faulted"],
            {
                result: RestoredText(text, tokens, tuple(results))
                for result, text, tokens, results in data["added"]
            },
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


@lru_cache(64)
def frozen_key(budget: int, parameters: Parameters, pins: Pins = NO_PINS, start: int = 0) -> str:
    """What a trail is kept under: one budget and where it starts, one set of shares, and what is
    pinned."""
    names = ("rebuild_share", "newest_share", "cache_ttl_minutes")
    shares = [getattr(parameters, name) for name in names]
    key = "/".join([FORMAT, str(budget), str(start or budget), *map(repr, shares)])
    if not pins:
        return key
    return f"{key}/{sha256(json.dumps(pins.to_json()).encode()).hexdigest()}"


def _texts_to_json(texts: Texts) -> list[list[Any]]:
    return [[key, made.text, made.tokens] for key, made in texts.items()]


def _texts_from_json(data: list[list[Any]]) -> dict[int, Substitute]:
    return {key: Substitute(text, tokens) for key, text, tokens in data}

"""Frozen renderings: what a call showed, kept so that later calls repeat it and append to it.

What is frozen before an invocation follows from the messages before it alone: it is as if every
invocation so far had been rendered. What is kept of it saves doing so again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from engine.history.replacement import Replacement
from engine.parameters import Parameters

FORMAT: Final = "1"
"""Of what is kept; what was kept in another format is made anew."""


@dataclass(slots=True, frozen=True)
class Frozen:
    """What was shown at the invocation that had the first `messages` messages.

    `left` are the turns that left, `complete` and `excerpts` the results shown, by number. All of
    it is empty while everything fits. `since` is `messages` as it was when all was last selected
    anew, 0 if it never was.
    """

    messages: int
    over: bool = False
    left: tuple[int, ...] = ()
    complete: tuple[int, ...] = ()
    excerpts: dict[int, Replacement] = field(default_factory=dict)
    since: int = 0

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "messages": self.messages,
            "over": self.over,
            "left": list(self.left),
            "complete": list(self.complete),
            "excerpts": [[r, made.text, made.tokens] for r, made in self.excerpts.items()],
            "since": self.since,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """From what `to_json` gave."""
        return cls(
            data["messages"],
            data["over"],
            tuple(data["left"]),
            tuple(data["complete"]),
            {result: Replacement(text, tokens) for result, text, tokens in data["excerpts"]},
            data["since"],
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
        held = (self.answered, self.latest)
        texts = sum(len(made.text) + 200 for one in held for made in one.excerpts.values())
        return 600 + texts + sum(40 * (len(one.complete) + len(one.left)) for one in held)

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


def frozen_key(budget: int, parameters: Parameters) -> str:
    """What a trail is kept under: a rendering is frozen under one budget and one set of shares."""
    shares = (parameters.frozen_share, parameters.eager, parameters.newest_share)
    return "/".join([FORMAT, str(budget), *map(repr, shares)])

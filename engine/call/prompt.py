"""What was shown last, as far as it tells two prompts of one history apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Self

from engine.call.runs import numbers_in, runs
from engine.history.history import Results

Noted = list[dict[str, Any]]

TEXTS: Final = ("replaced", "calls", "cut")


@dataclass(slots=True, frozen=True)
class Prompt:
    """The prompt of the call that had the first `messages` messages.

    `complete` are results by number; `replaced`, `calls` (by result) and `cut` (by message) are the
    hashes of texts in place of others, None where it is not known; `left` are messages whose text
    left.
    """

    messages: int
    complete: frozenset[int]
    replaced: Mapping[int, int | None]
    calls: Mapping[int, int | None] = field(default_factory=dict)
    left: frozenset[int] = frozenset()
    cut: Mapping[int, int | None] = field(default_factory=dict)

    def parts_from(self, later: Prompt, results: Results) -> int:
        """The first message that is not the same in both prompts."""
        changed = self.complete ^ later.complete
        changed |= _differing(self.replaced, later.replaced) | _differing(self.calls, later.calls)
        places = {place_of(results, result) for result in changed}
        places |= self.left ^ later.left | _differing(self.cut, later.cut)
        return min([self.messages, *(place for place in places if place < self.messages)])

    def to_json(self) -> dict[str, Any]:
        """As plain values, small: numbers in runs, each text's place before its hash."""
        texts = {name: list(chain(*sorted(getattr(self, name).items()))) for name in TEXTS}
        rest = {"complete": runs(self.complete), "left": runs(self.left)} | texts
        known = {name: list(value) for name, value in rest.items() if value}
        return {"messages": self.messages, **known}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """From what `to_json` gave."""
        complete, left = (
            frozenset(numbers_in(data.get(each, ()))) for each in ("complete", "left")
        )
        replaced, calls, cut = (_pairs(data.get(name, ())) for name in TEXTS)
        return cls(data["messages"], complete, replaced, calls, left, cut)


def noting_prompt(noted: Sequence[Mapping[str, Any]], prompt: Prompt) -> Noted:
    """What is noted after a call: its prompt, and the one before it, for it may be made again.

    A call made again from earlier changes nothing: it is not what the next one goes on with.
    """
    if noted and noted[-1]["messages"] > prompt.messages:
        return [dict(one) for one in noted]
    return [*up_to(noted, prompt.messages - 1)[-1:], prompt.to_json()]


def up_to(noted: Sequence[Mapping[str, Any]], messages: int) -> Noted:
    """What is noted of calls with so many messages or fewer, the newest last."""
    return [dict(one) for one in noted if one["messages"] <= messages]


def place_of(results: Results, result: int) -> int:
    """Where a result first stands in a prompt: with its call."""
    called = results.call_message[result]
    return results.message[result] if called < 0 else called


def _pairs(flat: Sequence[int]) -> dict[int, int | None]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _differing(one: Mapping[int, int | None], other: Mapping[int, int | None]) -> set[int]:
    """The keys of one alone, and those whose values are known and not the same."""
    both = one.keys() & other.keys()
    return (one.keys() ^ other.keys()) | {
        key for key in both if one[key] is not None and one[key] != other[key]
    }

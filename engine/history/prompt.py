"""What was shown last, as far as it tells two prompts of one history apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.history.history import Results


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
    calls: Mapping[int, int] = field(default_factory=dict)
    left: frozenset[int] = frozenset()
    cut: Mapping[int, int] = field(default_factory=dict)

    def parts_from(self, later: Prompt, results: Results) -> int:
        """The first message that is not the same in both prompts."""
        changed = self.complete ^ later.complete
        changed |= _differing(self.replaced, later.replaced) | _differing(self.calls, later.calls)
        places = {place_of(results, result) for result in changed}
        places |= self.left ^ later.left | _differing(self.cut, later.cut)
        return min([self.messages, *(place for place in places if place < self.messages)])


@dataclass(slots=True)
class LastPrompts:
    """The newest call's, and that of the call before it: a call may be made again."""

    before: Prompt | None = None
    latest: Prompt | None = None

    def earlier_than(self, messages: int) -> Prompt | None:
        """The newest one of a call with fewer messages."""
        for prompt in (self.latest, self.before):
            if prompt is not None and prompt.messages < messages:
                return prompt
        return None

    def note(self, prompt: Prompt) -> None:
        """A call was made."""
        if self.latest is not None and self.latest.messages < prompt.messages:
            self.before = self.latest
        self.latest = prompt


def place_of(results: Results, result: int) -> int:
    """Where a result first stands in a prompt: with its call."""
    called = results.call_message[result]
    return results.message[result] if called < 0 else called


def _differing(one: Mapping[int, int | None], other: Mapping[int, int | None]) -> set[int]:
    """The keys of one alone, and those whose values are known and not the same."""
    both = one.keys() & other.keys()
    return (one.keys() ^ other.keys()) | {
        key for key in both if one[key] is not None and one[key] != other[key]
    }

"""How much of a prompt repeats the beginning of the one before it: what a cache can serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Self
from zlib import crc32

from contextrender_bridge.engine.call.call_record import CallRecord, numbers_in, runs
from contextrender_bridge.engine.call.render_call import Rendered
from contextrender_bridge.engine.history.history import History, ResultArrays

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

    def parts_from(self, later: Prompt, results: ResultArrays) -> int:
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


def prompt_of(rendered: Rendered) -> Prompt:
    """The prompt of a rendering."""
    plan = rendered.plan
    return Prompt(
        len(rendered.view.history.roles),
        frozenset({*plan.taken} - plan.added.keys()),
        {result: _hash(made.text) for result, made in plan.added.items()}
        | {result: _hash(text) for result, text in rendered.texts.items()},
        {result: _hash(made.text) for result, made in plan.calls.items()},
        plan.retained.left_messages,
        {message: _hash(text) for message, text in plan.retained.excerpts.items()},
    )


def prompt_of_record(record: CallRecord, messages: int) -> Prompt:
    """The same as far as a record tells it."""
    replaced: dict[int, int | None] = dict.fromkeys(numbers_in(record.replaced))
    return Prompt(messages, frozenset(numbers_in(record.shown)), replaced)


def prompt_sent_whole(messages: int, results: int) -> Prompt:
    """The prompt of so many messages, these results among them, with nothing left out."""
    return Prompt(messages, frozenset(range(results)), {})


def shared_whole(history: History, prompt: Prompt, before: Prompt | None) -> int:
    """Tokens of the messages with which a prompt sent whole begins as the one before it did.

    The history may have gone on since.
    """
    stop = before.parts_from(prompt, history.results) if before else 0
    return history.totals[stop - 1] if stop else 0


def shared_tokens(rendered: Rendered, prompt: Prompt, before: Prompt | None) -> int:
    """Tokens of the messages with which a rendering, whose `prompt` it is, begins as the prompt
    before it did.
    """
    if before is None:
        return 0
    history, plan, counter = rendered.view.history, rendered.plan, rendered.view.counter
    stop = before.parts_from(prompt, history.results)
    total = sum(history.text_tokens[:stop])
    for message in plan.retained.left_messages:
        total -= history.text_tokens[message] if message < stop else 0
    for message, text in plan.retained.excerpts.items():
        if message < stop and message not in plan.retained.left_messages:
            total += counter.message({"content": text}) if text else 0
            total -= history.text_tokens[message]
    results, instead = history.results, rendered.replaced_tokens
    for result in (*plan.taken, *plan.replaced):
        if place_of(results, result) < stop:
            made = plan.calls.get(result)
            total += made.tokens if made else results.call_tokens[result]
        if results.message[result] < stop:
            behind = plan.added.get(result)
            whole = results.tokens[result] + (behind.tokens if behind else 0)
            total += instead.get(result, whole)
    return total


def _hash(text: str) -> int:
    """The same in every process."""
    return crc32(text.encode("utf-8", "surrogatepass"))


def place_of(results: ResultArrays, result: int) -> int:
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

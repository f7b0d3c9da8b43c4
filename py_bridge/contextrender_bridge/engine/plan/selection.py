"""What one model call shows: the one value that a policy returns, and that the graph holds.

A selection tells two things of the call before it: how long both prompts are the same, and what
came and what left. Long because it is one value, with its parts and what follows from it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from contextrender_bridge.engine.history.history import History, ResultArrays
from contextrender_bridge.engine.plan.ranking import Floats

Ranges = tuple[int, ...]
"""Characters of a text: start, length, start, length."""


@dataclass(slots=True, frozen=True)
class Substitute:
    """A text shown in place of a message's, a result's or a call's arguments.

    `tokens` are those of the whole message or call. `ranges` are the characters of the own text
    that it shows, where that is known.
    """

    text: str
    tokens: int
    kind: str = "excerpt"
    ranges: Ranges = field(default=(), compare=False)


@dataclass(slots=True, frozen=True)
class RestoredPart:
    """What is shown again of a result behind another one's text."""

    result: int
    text: str
    tokens: int
    ranges: Ranges = field(default=(), compare=False)


@dataclass(slots=True, frozen=True)
class RestoredText:
    """The parts of results that are shown again behind one result's own text."""

    parts: tuple[RestoredPart, ...]

    @property
    def text(self) -> str:
        """The text behind the result's own."""
        return "".join(part.text for part in self.parts)

    @property
    def tokens(self) -> int:
        """Its tokens."""
        return sum(part.tokens for part in self.parts)

    @property
    def results(self) -> tuple[int, ...]:
        """The results that are shown again."""
        return tuple(part.result for part in self.parts)


@dataclass(slots=True, frozen=True)
class TextSelection:
    """What is shown of the messages' texts: all but those `dropped`; those `cut` as substitutes.

    `turns` are the turns that were dropped whole.
    """

    dropped: tuple[int, ...] = ()
    cut: Mapping[int, Substitute] = field(default_factory=dict)
    turns: tuple[int, ...] = field(default=(), compare=False)

    def cut_since(self, later: TextSelection) -> set[int]:
        """Return the messages whose text is not complete here and is complete later."""
        return {*self.dropped, *self.cut} - {*later.dropped, *later.cut}


ALL_TEXT: Final = TextSelection()


@dataclass(slots=True, frozen=True)
class ScoreTable:
    """Why each result ranked as it did, one entry a result: relevance, U, and the last score.

    `relevance` is None where the policy does not embed.
    """

    relevance: Floats | None
    usefulness: Floats
    score: Floats


class RenderedMessage(NamedTuple):
    """One message of a prompt: which of its calls stay, and the text put in place of its own.

    `arguments` are put in place of those of the calls they are given for, in order.
    """

    message: int
    calls: tuple[int, ...] = ()
    text: str | None = None
    arguments: tuple[tuple[int, str], ...] = ()


@dataclass(slots=True, frozen=True)
class Changes:
    """What a call shows otherwise than the call before it, by event number.

    An event is a message's text, a call's arguments or a result. `complete` are shown in full,
    `excerpts` by a substitute, `dropped` not at all; `restored` are texts behind results, by the
    event of the result they stand behind. A result has nothing behind it unless that is named
    after its own last change. `next_excerpts` are what the next call shows instead of results that
    are among `complete` or `excerpts`.
    """

    complete: frozenset[int] = frozenset()
    excerpts: Mapping[int, Substitute] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()
    restored: Mapping[int, RestoredText] = field(default_factory=dict)
    next_excerpts: Mapping[int, Substitute] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Selection:
    """What the call with the first `messages` messages of a history shows.

    `complete` are results by number, `excerpts` those with a text in their place, `restored` texts
    behind complete results, `arguments` those of shown results' calls that are cut. Every other
    result is omitted.

    Results of `next_excerpts` are shown so in this call alone: the next call shows these excerpts
    in their place (`as_continued`).

    What is needed to go on from it: `is_over`, whether it ever left anything out; `rebuilt`, the
    messages there were when the prompt was last rebuilt; `breakpoints`, the messages up to which
    nothing has changed since; and the call's own `budget` in tokens, 0 where the settings' counts.

    Why it is so, which only the call that made it tells: `faulted`, whether the turn before missed
    something; `order`, the results in the order taken; `limits`, the most tokens of a substitute
    that is yet to be made; `scores` and `reasons`.
    """

    messages: int
    text: TextSelection = ALL_TEXT
    complete: tuple[int, ...] = ()
    excerpts: Mapping[int, Substitute] = field(default_factory=dict)
    restored: Mapping[int, RestoredText] = field(default_factory=dict)
    arguments: Mapping[int, Substitute] = field(default_factory=dict)
    next_excerpts: Mapping[int, Substitute] = field(default_factory=dict)
    is_over: bool = False
    rebuilt: int = 0
    breakpoints: tuple[int, ...] = ()
    budget: float = 0.0
    faulted: bool = field(default=False, compare=False)
    order: tuple[int, ...] = field(default=(), compare=False)
    limits: Mapping[int, int] = field(default_factory=dict, compare=False)
    scores: ScoreTable | None = field(default=None, compare=False)
    reasons: Mapping[int, str] = field(default_factory=dict, compare=False)

    @property
    def shown_order(self) -> Sequence[int]:
        """The results shown, complete or not, in the order taken."""
        return self.order or (*self.complete, *self.excerpts, *self.limits)

    @property
    def shown(self) -> frozenset[int]:
        """The results shown in their own place, complete or not."""
        return frozenset((*self.complete, *self.excerpts, *self.limits))

    @property
    def restored_results(self) -> frozenset[int]:
        """The results of which something is shown behind another."""
        return frozenset(result for text in self.restored.values() for result in text.results)

    @property
    def partial(self) -> frozenset[int]:
        """The results shown in part, in their own place or behind another."""
        return frozenset(self.excerpts) | self.restored_results - frozenset(self.complete)

    def as_continued(self) -> Selection:
        """Return what the next call goes on from, with the `next_excerpts` in their place."""
        if not self.next_excerpts:
            return self
        return replace(
            self,
            complete=tuple(r for r in self.complete if r not in self.next_excerpts),
            excerpts={**self.excerpts, **self.next_excerpts},
            next_excerpts={},
        )

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        each = (self.excerpts, self.arguments, self.next_excerpts, self.text.cut)
        held = sum(len(made.text) + 200 for texts in each for made in texts.values())
        held += sum(len(made.text) + 200 for made in self.restored.values())
        return 300 + held + 40 * (len(self.complete) + len(self.text.dropped))

    def differing_results(self, other: Selection) -> set[int]:
        """Return the results that only one of the two shows, or not both in the same way."""
        return {*self.complete} ^ {*other.complete} | (self.partial ^ other.partial)

    def changes_since(self, previous: Selection | None, history: History) -> Changes:
        """Return what came and what left since the call before."""
        before = NOTHING_SHOWN if previous is None else previous
        firsts, events = history.first_events, history.results.event
        complete = {*self.complete} - {*before.complete}
        complete |= self._differing_behind(before) & before.restored.keys() & {*self.complete}
        continued = {*self.next_excerpts, *before.next_excerpts}
        complete |= continued & {*self.complete}
        restored = {
            result: text
            for result, text in self.restored.items()
            if result in complete or before.restored.get(result) != text
        }
        own = self.shown
        dropped = (before.shown - own) | (before.restored_results - own - self.restored_results)
        return Changes(
            frozenset(events[result] for result in complete)
            | frozenset(firsts[message] for message in before.text.cut_since(self.text))
            | self._calls_again_complete(before, history),
            {events[result]: made for result, made in _new_in(self.excerpts, before.excerpts)}
            | {events[result]: self.excerpts[result] for result in continued & {*self.excerpts}}
            | {firsts[place]: made for place, made in _new_in(self.text.cut, before.text.cut)}
            | self._cut_calls(before, history),
            frozenset(events[result] for result in dropped)
            | self._calls_dropped(before, history)
            | frozenset(firsts[m] for m in {*self.text.dropped} - {*before.text.dropped}),
            {events[result]: text for result, text in restored.items()},
            {events[result]: made for result, made in self.next_excerpts.items()},
        )

    def in_full(self, history: History) -> Selection:
        """Return the selection of a call that was sent the full history instead."""
        shown = everything_shown(history, self.messages)
        return replace(shown, is_over=self.is_over, budget=self.budget)

    def shared_messages(self, previous: Selection | None, results: ResultArrays) -> int:
        """Return how many messages of the history both prompts begin with, shown alike."""
        if previous is None:
            return 0
        changed = {*self.complete} ^ {*previous.complete}
        changed |= _differing(self.excerpts, previous.excerpts) | self._differing_behind(previous)
        changed |= _differing(self.arguments, previous.arguments)
        places = {place_of(results, result) for result in changed}
        places |= {*self.text.dropped} ^ {*previous.text.dropped}
        places |= _differing(self.text.cut, previous.text.cut)
        return min([previous.messages, *places])

    def tokens_in(self, history: History, stop: int | None = None) -> int:
        """Return the tokens of the prompt's messages before position `stop`; of all without it."""
        end = self.messages if stop is None else stop
        total = text_tokens(history, self.text, end)
        results = history.results
        for result in (*self.complete, *self.excerpts):
            if place_of(results, result) < end:
                cut = self.arguments.get(result)
                total += cut.tokens if cut else results.call_tokens[result]
            if results.message[result] < end:
                made = self.excerpts.get(result)
                total += made.tokens if made else results.tokens[result]
                total += self.restored[result].tokens if result in self.restored else 0
        return total

    def _differing_behind(self, other: Selection) -> set[int]:
        """Return the results behind which the two selections show different texts."""
        return _differing(self.restored, other.restored)

    def _calls_again_complete(self, before: Selection, history: History) -> frozenset[int]:
        """Return the events of shown calls whose arguments were cut before."""
        again = (before.arguments.keys() - self.arguments.keys()) & self.shown
        return frozenset(history.results.call_event[result] for result in again)

    def _calls_dropped(self, before: Selection, history: History) -> frozenset[int]:
        """Return the events of the calls that were cut and are dropped with their results."""
        dropped = before.arguments.keys() - self.shown
        return frozenset(history.results.call_event[result] for result in dropped)

    def _cut_calls(self, before: Selection, history: History) -> dict[int, Substitute]:
        """Return the arguments that are cut and were not cut so before, by the call's event."""
        calls = history.results.call_event
        return {
            calls[result]: made
            for result, made in self.arguments.items()
            if before.arguments.get(result) != made or result not in before.shown
        }


NOTHING_SHOWN: Final = Selection(0)


def everything_shown(history: History, messages: int) -> Selection:
    """Return the selection of the full history's first messages: every result, whatever it is."""
    return Selection(messages, complete=tuple(range(history.results_before(messages))))


def remembered_selection(history: History, messages: int) -> Selection | None:
    """Return what one of the last calls showed, if this process knows it."""
    return history.selections[messages][1] if messages in history.selections else None


def messages_before_budget(history: History, messages: int) -> frozenset[int]:
    """Return the positions that no budget charges: the system prompt and the current user's."""
    last = history.last_user
    if messages < len(history.roles):
        roles = history.roles
        last = next((p for p in range(messages - 1, -1, -1) if roles[p] == "user"), -1)
    return frozenset([*range(min(history.leading_system, messages)), last]) - {-1}


def text_tokens(history: History, text: TextSelection, messages: int) -> int:
    """Return the tokens of the first messages' texts as they are shown, calls and results apart."""
    sizes = history.text_tokens
    total = sum(sizes[:messages])
    for message in text.dropped:
        total -= sizes[message] if message < messages else 0
    for message, made in text.cut.items():
        total += made.tokens - sizes[message] if message < messages else 0
    return total


def place_of(results: ResultArrays, result: int) -> int:
    """Return where a result first stands in a prompt: with its call."""
    called = results.call_message[result]
    return results.message[result] if called < 0 else called


def rendered_messages(
    history: History, selection: Selection, own_text: Callable[[int], str]
) -> list[RenderedMessage]:
    """Return the messages of a selection's prompt, in order; `own_text` reads a message's text."""
    positions = history.results.message
    instead = {positions[result]: made.text for result, made in selection.excerpts.items()}
    for result, behind in selection.restored.items():
        instead[positions[result]] = own_text(positions[result]) + behind.text
    shown = selection.shown
    calls: dict[int, tuple[int, ...]] = {}
    arguments: dict[int, tuple[tuple[int, str], ...]] = {}
    for result, (message, call) in zip(shown, history.calls_of(shown), strict=True):
        calls[message] = tuple(sorted((*calls[message], call))) if message in calls else (call,)
        if result in selection.arguments:
            cut = (call, selection.arguments[result].text)
            arguments[message] = tuple(sorted((*arguments.get(message, ()), cut)))
    items = [
        RenderedMessage(at, (), instead.get(at)) for at in (positions[result] for result in shown)
    ]
    spoken = set(history.text_messages[: bisect_left(history.text_messages, selection.messages)])
    own = {message: made.text for message, made in selection.text.cut.items()}
    own |= dict.fromkeys(selection.text.dropped, "")
    silent = {message for message, text in own.items() if text == ""}
    items += [
        RenderedMessage(
            message, calls.get(message, ()), own.get(message), arguments.get(message, ())
        )
        for message in spoken - silent | calls.keys()
    ]
    return sorted(items)


def _new_in(
    now: Mapping[int, Substitute], before: Mapping[int, Substitute]
) -> list[tuple[int, Substitute]]:
    return [(place, made) for place, made in now.items() if before.get(place) != made]


def _differing(one: Mapping[int, object], other: Mapping[int, object]) -> set[int]:
    """Return the keys of one alone, and those whose values are not the same."""
    both = one.keys() & other.keys()
    return (one.keys() ^ other.keys()) | {key for key in both if one[key] != other[key]}

"""The selection of one model call: the value that a policy returns, and that the graph stores.

A selection can be compared with that of the call before: how many messages both prompts begin with,
and what changed. Long because it is one value, with its parts and what follows from it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from contextrender_bridge.engine.history.history import NO_CALL, History, ResultArrays
from contextrender_bridge.engine.plan.ranking import Floats

Ranges = tuple[int, ...]
"""Ranges of characters of a text: start, length, start, length."""


@dataclass(slots=True, frozen=True)
class Substitute:
    """A text shown instead of a message's text, a result or a call's arguments.

    `tokens` is the size of the message or call with it. `ranges` are the characters of the original
    text that it has, if that is known.
    """

    text: str
    tokens: int
    kind: str = "excerpt"
    ranges: Ranges = field(default=(), compare=False)


@dataclass(slots=True, frozen=True)
class RestoredPart:
    """A part of a result that is shown again after another result."""

    result: int
    text: str
    tokens: int
    ranges: Ranges = field(default=(), compare=False)


@dataclass(slots=True, frozen=True)
class RestoredText:
    """The parts of results that are shown again after one result, their host."""

    parts: tuple[RestoredPart, ...]

    @property
    def text(self) -> str:
        """The text of all parts."""
        return "".join(part.text for part in self.parts)

    @property
    def tokens(self) -> int:
        """The tokens of all parts."""
        return sum(part.tokens for part in self.parts)

    @property
    def results(self) -> tuple[int, ...]:
        """The results that are shown again."""
        return tuple(part.result for part in self.parts)


@dataclass(slots=True, frozen=True)
class TextSelection:
    """The texts of messages in a prompt: all but the `dropped` ones; `cut` ones as substitutes.

    `dropped_turns` are the turns that were dropped with all their texts, calls and results.
    """

    dropped: tuple[int, ...] = ()
    cut: Mapping[int, Substitute] = field(default_factory=dict)
    dropped_turns: tuple[int, ...] = field(default=(), compare=False)

    def completed_since(self, before: TextSelection) -> set[int]:
        """Return the messages whose text is complete here but was not in the selection `before`."""
        return {*before.dropped, *before.cut} - {*self.dropped, *self.cut}


ALL_TEXT: Final = TextSelection()


@dataclass(slots=True, frozen=True)
class ScoreTable:
    """The scores of each result: its relevance, its usefulness, and the score that it ranks by.

    `relevance` is None if the policy does not embed. The scores of a policy that ranks by one
    measure alone are the same array.
    """

    relevance: Floats | None
    usefulness: Floats
    score: Floats

    def of(self, result: int) -> tuple[float | None, float, float]:
        """Return a result's relevance, usefulness and score."""
        relevance = None if self.relevance is None else float(self.relevance[result])
        return relevance, float(self.usefulness[result]), float(self.score[result])


class RenderedMessage(NamedTuple):
    """One message of a prompt: the calls that it keeps, and the substitute for its text, if any.

    `arguments` has the number and the cut arguments of each cut call, in order.
    """

    message: int
    calls: tuple[int, ...] = ()
    text: str | None = None
    arguments: tuple[tuple[int, str], ...] = ()


@dataclass(slots=True, frozen=True)
class Changes:
    """The changes of a prompt since the call before it, by event number.

    An event is a message's text, a call's arguments or a result. `complete` events are shown in
    full, `excerpts` by a substitute, `dropped` ones not at all. `restored` has the texts that are
    shown again after a result, by that result's event; a later change of the result removes the
    text. `next_excerpts` has the excerpts that the next call shows instead of some of the events
    among `complete` and `excerpts`, which this call alone shows at greater length.
    """

    complete: frozenset[int] = frozenset()
    excerpts: Mapping[int, Substitute] = field(default_factory=dict)
    dropped: frozenset[int] = frozenset()
    restored: Mapping[int, RestoredText] = field(default_factory=dict)
    next_excerpts: Mapping[int, Substitute] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Selection:
    """The prompt of the call that had the first `messages` messages of a history.

    The parts of the prompt:

    - `text` has the texts of messages.
    - `complete` has the results that are shown complete, by number; `excerpts` has the substitutes
      of others. Results in neither are omitted.
    - `restored` has the texts that are shown again after complete results, by these results.
      `arguments` has the cut arguments of calls, by the calls' results.
    - `next_excerpts` has the excerpts that the next call shows instead of results that this call
      shows at greater length (`as_continued`).

    The data that the next call needs:

    - `is_over` is true if this prompt or an earlier one omitted anything.
    - `rebuilt` is the number of messages when the prompt was last rebuilt.
    - `breakpoints` are the cache breakpoints, as positions of messages.
    - `budget` is the call's own in tokens, 0 if it is that of the settings.

    The data that only a new selection has, because it is not stored:

    - `follows_miss` is true if the turn before had a miss.
    - `order` has the results in the order in which they were selected.
    - `limits` has the most tokens of substitutes that are still to be written.
    - `scores` and `reasons` explain the selection.
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
    follows_miss: bool = field(default=False, compare=False)
    order: tuple[int, ...] = field(default=(), compare=False)
    limits: Mapping[int, int] = field(default_factory=dict, compare=False)
    scores: ScoreTable | None = field(default=None, compare=False)
    reasons: Mapping[int, str] = field(default_factory=dict, compare=False)

    @property
    def shown_order(self) -> Sequence[int]:
        """The results shown, complete or not, in the order in which they were selected."""
        return self.order or (*self.complete, *self.excerpts, *self.limits)

    @property
    def shown_results(self) -> frozenset[int]:
        """The results shown at their own position, complete or not."""
        return frozenset((*self.complete, *self.excerpts, *self.limits))

    @property
    def restored_results(self) -> frozenset[int]:
        """The results of which a part is shown again after another result."""
        return frozenset(result for text in self.restored.values() for result in text.results)

    @property
    def partial(self) -> frozenset[int]:
        """The results shown in part, at their own position or after another."""
        return frozenset(self.excerpts) | self.restored_results - frozenset(self.complete)

    def as_continued(self) -> Selection:
        """Return the selection that the next call continues, with the `next_excerpts` applied."""
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
        parts = (self.excerpts, self.arguments, self.next_excerpts, self.text.cut)
        texts = [substitute.text for part in parts for substitute in part.values()]
        texts += [restored.text for restored in self.restored.values()]
        text_bytes = sum(len(text) + 200 for text in texts)
        return 300 + text_bytes + 40 * (len(self.complete) + len(self.text.dropped))

    def differing_results(self, other: Selection) -> set[int]:
        """Return the results that the two selections do not show in the same way."""
        return {*self.complete} ^ {*other.complete} | (self.partial ^ other.partial)

    def changes_since(self, previous: Selection | None, history: History) -> Changes:
        """Return the changes since the `previous` prompt of the branch; without it, all events.

        Changes of results, of messages' texts and of calls' arguments are found separately, and
        returned together by their events.
        """
        before = NOTHING_SHOWN if previous is None else previous
        events = history.results.event

        complete, excerpts = self._newly_complete(before), self._new_excerpts(before)
        visible = self.shown_results | self.restored_results
        dropped = (before.shown_results - self.shown_results) | (before.restored_results - visible)
        # A stored change of a result removes the text after it, so that is stored again, too.
        restored = {
            events[result]: text
            for result, text in self.restored.items()
            if result in complete or before.restored.get(result) != text
        }

        complete_texts, excerpt_texts, dropped_texts = self._text_changes(before, history)
        complete_calls = self._uncut_calls(before, history)
        excerpt_calls = self._cut_calls(before, history)
        dropped_calls = self._dropped_calls(before, history)
        return Changes(
            complete=complete_texts.union(complete_calls, (events[r] for r in complete)),
            excerpts={events[r]: excerpt for r, excerpt in excerpts.items()}
            | excerpt_texts
            | excerpt_calls,
            dropped=dropped_texts.union(dropped_calls, (events[r] for r in dropped)),
            restored=restored,
            next_excerpts={events[r]: excerpt for r, excerpt in self.next_excerpts.items()},
        )

    def _newly_complete(self, before: Selection) -> set[int]:
        """Return the complete results that need an edge, as they are not shown as `before`.

        They were not complete before, or another text was shown again after them, or one of the two
        calls shows them complete in that call alone (`next_excerpts`).
        """
        complete = {*self.complete}
        was_complete = {*before.complete}
        text_changed = self._differing_restored(before) & before.restored.keys()
        complete_once = {*self.next_excerpts, *before.next_excerpts}
        return (complete - was_complete) | (complete & (text_changed | complete_once))

    def _new_excerpts(self, before: Selection) -> dict[int, Substitute]:
        """Return the excerpts that need an edge, by result.

        They were not the same `before`, or one of the two calls shows another excerpt in that call
        alone (`next_excerpts`).
        """
        shown_once = {*self.next_excerpts, *before.next_excerpts}
        return {
            result: excerpt
            for result, excerpt in self.excerpts.items()
            if result in shown_once or before.excerpts.get(result) != excerpt
        }

    def _text_changes(
        self, before: Selection, history: History
    ) -> tuple[frozenset[int], dict[int, Substitute], frozenset[int]]:
        """Return the events of texts that became complete, were cut and were dropped."""
        events, text, text_before = history.first_events, self.text, before.text
        cut_now = {
            events[message]: substitute
            for message, substitute in text.cut.items()
            if text_before.cut.get(message) != substitute
        }
        return (
            frozenset(events[message] for message in text.completed_since(text_before)),
            cut_now,
            frozenset(events[message] for message in {*text.dropped} - {*text_before.dropped}),
        )

    def in_full(self, history: History) -> Selection:
        """Return the selection of a call that was sent the full history instead."""
        selection = select_full_history(history, self.messages)
        return replace(selection, is_over=self.is_over, budget=self.budget)

    def shared_messages(self, previous: Selection | None, results: ResultArrays) -> int:
        """Return the number of messages that both prompts begin with."""
        if previous is None:
            return 0
        changed = {*self.complete} ^ {*previous.complete}
        changed |= _differing_keys(self.excerpts, previous.excerpts)
        changed |= self._differing_restored(previous)
        changed |= _differing_keys(self.arguments, previous.arguments)
        positions = {first_message_of(results, result) for result in changed}
        positions |= {*self.text.dropped} ^ {*previous.text.dropped}
        positions |= _differing_keys(self.text.cut, previous.text.cut)
        return min([previous.messages, *positions])

    def tokens_in(self, history: History, stop: int | None = None) -> int:
        """Return the tokens of the prompt's messages, or of those before position `stop`."""
        end = self.messages if stop is None else stop
        total = text_tokens(history, self.text, end)
        results = history.results
        for result in (*self.complete, *self.excerpts):
            if first_message_of(results, result) < end:
                arguments = self.arguments.get(result)
                total += arguments.tokens if arguments else results.call_tokens[result]
            if results.message[result] < end:
                excerpt = self.excerpts.get(result)
                total += excerpt.tokens if excerpt else results.tokens[result]
                total += self.restored[result].tokens if result in self.restored else 0
        return total

    def _differing_restored(self, other: Selection) -> set[int]:
        """Return the results after which the two selections show different texts again."""
        return _differing_keys(self.restored, other.restored)

    def _uncut_calls(self, before: Selection, history: History) -> frozenset[int]:
        """Return the events of shown calls whose arguments were cut and are complete now."""
        complete = (before.arguments.keys() - self.arguments.keys()) & self.shown_results
        return frozenset(history.results.call_event[result] for result in complete)

    def _dropped_calls(self, before: Selection, history: History) -> frozenset[int]:
        """Return the events of calls that were cut and are dropped with their results."""
        calls = history.results.call_event
        return frozenset(calls[result] for result in before.arguments.keys() - self.shown_results)

    def _cut_calls(self, before: Selection, history: History) -> dict[int, Substitute]:
        """Return the cut arguments of calls that need an edge, by the call's event.

        They changed, or the prompt `before` did not show the call, which is shown with its result.
        """
        calls = history.results.call_event
        return {
            calls[result]: arguments
            for result, arguments in self.arguments.items()
            if before.arguments.get(result) != arguments or result not in before.shown_results
        }


NOTHING_SHOWN: Final = Selection(0)


def select_full_history(history: History, messages: int) -> Selection:
    """Return the selection of the full history's first messages, with every result."""
    return Selection(messages, complete=tuple(range(history.results_before(messages))))


def remembered_selection(history: History, messages: int) -> Selection | None:
    """Return the selection of one of the last calls, if this process has it."""
    return history.selections[messages][1] if messages in history.selections else None


def unbudgeted_messages(history: History, messages: int) -> frozenset[int]:
    """Return the positions of the unbudgeted messages: the system prompt and the current user's."""
    last_user = history.last_user
    if messages < len(history.roles):
        last_user = history.latest_of("user", messages)
    return frozenset([*range(min(history.leading_system, messages)), last_user]) - {-1}


def text_tokens(history: History, text: TextSelection, messages: int) -> int:
    """Return the tokens of the texts that the prompt shows of the first `messages` messages."""
    sizes = history.text_tokens
    total = sum(sizes[:messages])
    for message in text.dropped:
        total -= sizes[message] if message < messages else 0
    for message, cut in text.cut.items():
        total += cut.tokens - sizes[message] if message < messages else 0
    return total


def first_message_of(results: ResultArrays, result: int) -> int:
    """Return the position of a result's call, or of the result if it has no call."""
    call_message = results.call_message[result]
    return results.message[result] if call_message == NO_CALL else call_message


def rendered_messages(
    history: History, selection: Selection, text_of: Callable[[int], str]
) -> list[RenderedMessage]:
    """Return the messages of a selection's prompt, in order.

    `text_of` reads the original text of a message. A user or assistant message is in the prompt if
    its text or one of its calls is.
    """
    calls, arguments = _calls_by_message(history, selection)
    substitutes = {message: cut.text for message, cut in selection.text.cut.items()}
    substitutes |= dict.fromkeys(selection.text.dropped, "")
    without_text = {message for message, text in substitutes.items() if text == ""}
    # The messages with text are sorted by position; those before the call are the first ones.
    count_before_call = bisect_left(history.text_messages, selection.messages)
    with_text = set(history.text_messages[:count_before_call]) - without_text
    rendered = _result_messages(history, selection, text_of)
    rendered += [
        RenderedMessage(
            message, calls.get(message, ()), substitutes.get(message), arguments.get(message, ())
        )
        for message in with_text | calls.keys()
    ]
    return sorted(rendered)


def _result_messages(
    history: History, selection: Selection, text_of: Callable[[int], str]
) -> list[RenderedMessage]:
    """Return the messages of the results that a selection shows.

    Parts of older results that are restored after a result are appended to its complete text.
    """
    positions = history.results.message
    substitutes = {positions[r]: excerpt.text for r, excerpt in selection.excerpts.items()}
    for result, restored in selection.restored.items():
        position = positions[result]
        substitutes[position] = text_of(position) + restored.text
    result_positions = (positions[result] for result in selection.shown_results)
    return [RenderedMessage(p, text=substitutes.get(p)) for p in result_positions]


def _calls_by_message(
    history: History, selection: Selection
) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[tuple[int, str], ...]]]:
    """Return the shown calls, and the cut arguments, by message.

    Calls are numbers within their message. Cut arguments are pairs of a number and a text.
    """
    results = selection.shown_results
    calls: dict[int, tuple[int, ...]] = {}
    arguments: dict[int, tuple[tuple[int, str], ...]] = {}
    for result, (message, call) in zip(results, history.calls_of(results), strict=True):
        calls[message] = tuple(sorted((*calls.get(message, ()), call)))
        if result in selection.arguments:
            cut = (call, selection.arguments[result].text)
            arguments[message] = tuple(sorted((*arguments.get(message, ()), cut)))
    return calls, arguments


def _differing_keys(first: Mapping[int, object], second: Mapping[int, object]) -> set[int]:
    """Return the keys that only one mapping has, and those whose values are not the same."""
    both = first.keys() & second.keys()
    return (first.keys() ^ second.keys()) | {key for key in both if first[key] != second[key]}

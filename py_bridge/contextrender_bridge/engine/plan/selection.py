"""The selection of one model call: the value that a policy returns, and that the graph stores.

A selection can be compared with the selection of the call before: how many messages both prompts
begin with, and what changed. Long because it is one value, with its parts and what follows from it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Final, TypedDict

from contextrender_bridge.engine.history.history import NO_CALL, History, ResultArrays
from contextrender_bridge.engine.history.token_tracking import TextsOf
from contextrender_bridge.engine.plan.ranking import Floats

Ranges = tuple[int, ...]
"""Ranges of characters of a text: start, length, start, length."""

_SELECTION_BYTES: Final = 300
_TEXT_OBJECT_BYTES: Final = 200
_NUMBER_BYTES: Final = 40
"""The memory of a selection itself, of each text's objects, and of each number in a tuple."""


@dataclass(slots=True, frozen=True)
class Substitute:
    """A text shown instead of a message's text, a result or a call's arguments.

    `tokens` is the size of the message or call that shows this text. `ranges` are the ranges of the
    original text that it contains, if they are known.
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


@dataclass(frozen=True)
class RestoredText:
    """The parts of results that are shown again. They are appended to one result, their host."""

    parts: tuple[RestoredPart, ...]

    @cached_property
    def text(self) -> str:
        """The text of all parts."""
        return "".join(part.text for part in self.parts)

    @cached_property
    def tokens(self) -> int:
        """The tokens of all parts."""
        return sum(part.tokens for part in self.parts)

    @property
    def results(self) -> tuple[int, ...]:
        """The results that are shown again."""
        return tuple(part.result for part in self.parts)


@dataclass(slots=True, frozen=True)
class TextSelection:
    """The texts of messages that a prompt shows.

    `dropped` has the positions of messages whose texts are omitted. `cut` maps the positions of
    other messages to the substitutes of their texts. All other texts are complete. In
    `dropped_turns`, all texts, calls and results are dropped.
    """

    dropped: tuple[int, ...] = ()
    cut: Mapping[int, Substitute] = field(default_factory=dict)
    dropped_turns: tuple[int, ...] = field(default=(), compare=False)

    def completed_since(self, before: TextSelection) -> set[int]:
        """Return the messages whose text is complete now, and was not in the selection `before`."""
        return {*before.dropped, *before.cut} - {*self.dropped, *self.cut}


ALL_TEXT: Final = TextSelection()


@dataclass(slots=True, frozen=True)
class ScoreTable:
    """The scores of each result: its relevance, its usefulness, and the score that it ranks by.

    `relevance` is None if the policy does not embed texts. If a policy ranks by one measure alone,
    several fields are the same array.
    """

    relevance: Floats | None
    usefulness: Floats
    score: Floats


class PlannedMessage(TypedDict):
    """One message of a prompt.

    `message` is its position, and `calls` are the numbers of its tool calls that the prompt has.
    `text` replaces the message's own text, unless it is None. If the prompt cuts the arguments of a
    call, `arguments` has, for each of `calls`, the text that replaces its arguments, or None. A
    client makes the prompt from its own copy of the messages and this plan.
    """

    message: int
    calls: list[int]
    text: str | None
    arguments: list[str | None] | None


@dataclass(slots=True, frozen=True)
class Changes:
    """The changes of a prompt since the call before it, by event number.

    An event is a message's text, a call's arguments or a result.

    - `complete` has the events that are now shown in full, and `dropped` the events that are not
      shown any more. `excerpts` maps events to the substitutes that are now shown instead.
    - `restored` maps the event of a result (the host) to the texts of other results that are shown
      again after it. A later change of the host removes these texts.
    - `next_excerpts` maps some events among `complete` and `excerpts` to the shorter excerpts that
      the next call will show.
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
    - `complete` has the numbers of results that are shown complete, and `excerpts` the substitutes
      of other results. All other results are omitted.
    - `restored` maps the number of a complete result to the texts of other results that are shown
      again after it. `arguments` maps the number of a result to the cut arguments of its call.
    - `next_excerpts` maps the numbers of some results to the excerpts that the next call will show
      (`as_continued`). Only this call shows these results at greater length.

    The data that the next call needs:

    - `is_over` is true if this prompt or an earlier one omitted anything.
    - `rebuilt` is the number of messages when the prompt was last rebuilt.
    - `breakpoints` are the cache breakpoints, as positions of messages.
    - `budget` is this call's automatic budget in tokens, 0 if the budget is not automatic.

    The data that only a new selection has, because it is not stored:

    - `follows_miss` is true if the turn before had a miss.
    - `order` has the results in the order in which they were selected.
    - `limits` maps results whose substitute a model must still write to its maximum of tokens.
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
        """The results shown in part, at their own position or after another result."""
        return frozenset(self.excerpts) | self.restored_results - frozenset(self.complete)

    def as_continued(self) -> Selection:
        """Return the selection that the next call appends to.

        In it, the results that only this call shows at length are shown as their `next_excerpts`.
        """
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
        # Most characters of a text have one byte.
        text_bytes = sum(len(text) + _TEXT_OBJECT_BYTES for text in texts)
        number_count = len(self.complete) + len(self.text.dropped)
        return _SELECTION_BYTES + text_bytes + _NUMBER_BYTES * number_count

    def differing_results(self, other: Selection) -> set[int]:
        """Return the results that are complete in only one selection, or partial in only one."""
        return ({*self.complete} ^ {*other.complete}) | (self.partial ^ other.partial)

    def changes_since(self, previous: Selection | None, history: History) -> Changes:
        """Return the changes since the `previous` prompt of the branch.

        Without a previous prompt, all results that this prompt shows and all its dropped and cut
        texts are changes.
        """
        before = NOTHING_SHOWN if previous is None else previous
        results = self._result_changes(before, history.results.event)
        texts = self._text_changes(before, history.first_events)
        calls = self._call_changes(before, history.results.call_event)
        return Changes(
            complete=results.complete | texts.complete | calls.complete,
            excerpts={**results.excerpts, **texts.excerpts, **calls.excerpts},
            dropped=results.dropped | texts.dropped | calls.dropped,
            restored=results.restored,
            next_excerpts=results.next_excerpts,
        )

    def _result_changes(self, before: Selection, events: Sequence[int]) -> Changes:
        """Return the changes of results. `events` has the event number of each result."""
        # A call shows the results in its `next_excerpts` in full or at length, and the next call
        # shows only shorter excerpts of them. They count as changed in both calls.
        shown_longer_once = {*self.next_excerpts, *before.next_excerpts}
        # A host is a result after which parts of other results are shown again. If this restored
        # text changed, the host counts as changed, too. A reader of the stored changes then removes
        # the earlier restored text.
        hosts_to_clear = self._differing_restored(before) & before.restored.keys()
        # Complete results: those that were not complete before, and the two kinds above.
        complete = {*self.complete}
        newly_complete = complete - {*before.complete}
        newly_complete |= complete & (hosts_to_clear | shown_longer_once)
        # Dropped results: those that lost their own position, even if a part of them is now shown
        # after a host, and those that were only shown after a host and are not visible any more.
        visible = self.shown_results | self.restored_results
        dropped = (before.shown_results - self.shown_results) | (before.restored_results - visible)
        return Changes(
            complete=frozenset(events[result] for result in newly_complete),
            excerpts={
                events[result]: excerpt
                for result, excerpt in self.excerpts.items()
                if result in shown_longer_once or before.excerpts.get(result) != excerpt
            },
            dropped=frozenset(events[result] for result in dropped),
            restored={
                events[result]: text
                for result, text in self.restored.items()
                if result in newly_complete or before.restored.get(result) != text
            },
            next_excerpts={events[r]: excerpt for r, excerpt in self.next_excerpts.items()},
        )

    def _text_changes(self, before: Selection, events: Sequence[int]) -> Changes:
        """Return the changes of messages' texts. `events` has the first event of each message."""
        text, text_before = self.text, before.text
        dropped = {*text.dropped} - {*text_before.dropped}
        return Changes(
            complete=frozenset(events[message] for message in text.completed_since(text_before)),
            excerpts={
                events[message]: substitute
                for message, substitute in text.cut.items()
                if text_before.cut.get(message) != substitute
            },
            dropped=frozenset(events[message] for message in dropped),
        )

    def _call_changes(self, before: Selection, events: Sequence[int]) -> Changes:
        """Return the changes of calls' arguments. `events` has the call's event of each result.

        A call is shown and dropped with its result. So only calls count whose arguments are cut
        (`excerpts`), or were cut in the prompt `before` and are now uncut (`complete`) or dropped.
        """
        uncut = (before.arguments.keys() - self.arguments.keys()) & self.shown_results
        dropped = before.arguments.keys() - self.shown_results
        return Changes(
            complete=frozenset(events[result] for result in uncut),
            excerpts={
                events[result]: arguments
                for result, arguments in self.arguments.items()
                if before.arguments.get(result) != arguments or result not in before.shown_results
            },
            dropped=frozenset(events[result] for result in dropped),
        )

    def in_full(self, history: History) -> Selection:
        """Return the selection of the full history, with this selection's `is_over` and `budget`.

        It replaces this selection if the caller sends the full history instead.
        """
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
        # A call is shown and dropped with its result, so a change begins at the call's message.
        positions = {first_message_of(results, result) for result in changed}
        positions |= {*self.text.dropped} ^ {*previous.text.dropped}
        positions |= _differing_keys(self.text.cut, previous.text.cut)
        return min([previous.messages, *positions])

    def shared_tokens(self, previous: Selection | None, history: History) -> int:
        """Return the tokens of the messages that both prompts begin with.

        The provider may have cached them.
        """
        return self.tokens_in(history, self.shared_messages(previous, history.results))

    def tokens_in(self, history: History, stop: int | None = None) -> int:
        """Return the tokens of the prompt's messages, or of those before position `stop`."""
        end = self.messages if stop is None else stop
        return text_tokens(history, self.text, end) + self.result_tokens(history, end)

    def result_tokens(self, history: History, end: int) -> int:
        """Return the tokens of the prompt's results and calls in messages before position `end`."""
        total, results = 0, history.results
        for result in (*self.complete, *self.excerpts):
            # The call of a result may be before `end`, and the result after it.
            if first_message_of(results, result) < end:
                arguments = self.arguments.get(result)
                total += arguments.tokens if arguments else results.call_tokens[result]
            if results.message[result] < end:
                excerpt = self.excerpts.get(result)
                total += excerpt.tokens if excerpt else results.tokens[result]
                total += self.restored[result].tokens if result in self.restored else 0
        return total

    def _differing_restored(self, other: Selection) -> set[int]:
        """Return the results after which the two selections show different restored texts."""
        return _differing_keys(self.restored, other.restored)


NOTHING_SHOWN: Final = Selection(0)


def select_full_history(history: History, messages: int) -> Selection:
    """Return the selection that shows the first `messages` messages, with every result complete."""
    return Selection(messages, complete=tuple(range(history.results_before(messages))))


def unbudgeted_messages(history: History, messages: int) -> frozenset[int]:
    """Return the positions of the system prompt's messages and of the current user message.

    These messages are in every prompt, and do not count towards the budget.
    """
    last_user = history.last_user
    if messages < len(history.roles):
        last_user = history.latest_of("user", messages)
    system_count = min(history.leading_system, messages)
    return frozenset([*range(system_count), last_user]) - {-1}


def text_tokens(history: History, text: TextSelection, messages: int) -> int:
    """Return the tokens of the texts that the prompt shows of the first `messages` messages."""
    sizes = history.text_tokens
    total = history.text_totals[messages]
    for message in text.dropped:
        if message < messages:
            total -= sizes[message]
    for message, cut in text.cut.items():
        if message < messages:
            total += cut.tokens - sizes[message]
    return total


def first_message_of(results: ResultArrays, result: int) -> int:
    """Return the position of a result's call, or of the result if it has no call."""
    call_message = results.call_message[result]
    return results.message[result] if call_message == NO_CALL else call_message


def rendered_messages(
    history: History, selection: Selection, texts_of: TextsOf
) -> list[PlannedMessage]:
    """Return the messages of a selection's prompt, in order.

    A result's message is in the prompt if the selection shows the result. Any other message is in
    the prompt if its text or one of its calls is shown. `texts_of` reads the original texts of
    messages.
    """
    rendered = _result_messages(history, selection, texts_of)
    calls, arguments = _calls_by_message(history, selection)
    # The text of a dropped message becomes empty, because its calls may still be shown.
    substitutes = {message: cut.text for message, cut in selection.text.cut.items()}
    substitutes |= dict.fromkeys(selection.text.dropped, "")
    # A message with an empty text is in the prompt only if one of its calls is shown.
    without_text = {message for message, text in substitutes.items() if text == ""}
    # `text_messages` is sorted, and may have messages that are newer than the call.
    text_count = bisect_left(history.text_messages, selection.messages)
    with_text = set(history.text_messages[:text_count]) - without_text
    rendered += [
        PlannedMessage(
            message=message,
            calls=calls.get(message, []),
            text=substitutes.get(message),
            arguments=arguments.get(message),
        )
        for message in with_text | calls.keys()
    ]
    return sorted(rendered, key=itemgetter("message"))


def _result_messages(
    history: History, selection: Selection, texts_of: TextsOf
) -> list[PlannedMessage]:
    """Return the messages of the results that a selection shows.

    If parts of other results are shown again after a result, they are appended to its text.
    """
    positions = history.results.message
    substitutes = {positions[r]: excerpt.text for r, excerpt in selection.excerpts.items()}
    hosts = [positions[result] for result in selection.restored]
    restored_texts = (restored.text for restored in selection.restored.values())
    host_texts = texts_of(hosts) if hosts else ()
    for position, text, restored in zip(hosts, host_texts, restored_texts, strict=True):
        substitutes[position] = text + restored
    shown_positions = (positions[result] for result in selection.shown_results)
    return [
        PlannedMessage(message=p, calls=[], text=substitutes.get(p), arguments=None)
        for p in shown_positions
    ]


def _calls_by_message(
    history: History, selection: Selection
) -> tuple[dict[int, list[int]], dict[int, list[str | None]]]:
    """Return two mappings by message position: the calls that are shown, and their cut arguments.

    The first maps to the numbers of the calls in the message. The second has only messages with a
    cut call, and maps to the text of the cut arguments for each of these numbers, None for a call
    that is not cut.
    """
    results = selection.shown_results
    calls: dict[int, list[int]] = {}
    cut_texts: dict[int, dict[int, str]] = {}  # by message and call
    messages, numbers = history.results.call_message, history.results.call_number
    for result in results:
        message, call = messages[result], numbers[result]
        insort(calls.setdefault(message, []), call)
        if result in selection.arguments:
            cut_texts.setdefault(message, {})[call] = selection.arguments[result].text
    arguments: dict[int, list[str | None]] = {
        message: [texts.get(call) for call in calls[message]]
        for message, texts in cut_texts.items()
    }
    return calls, arguments


def _differing_keys(first: Mapping[int, object], second: Mapping[int, object]) -> set[int]:
    """Return the keys that only one mapping has, and the keys with different values."""
    shared_keys = first.keys() & second.keys()
    with_other_value = {key for key in shared_keys if first[key] != second[key]}
    return (first.keys() ^ second.keys()) | with_other_value

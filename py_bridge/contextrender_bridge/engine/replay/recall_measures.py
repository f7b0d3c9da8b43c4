"""Measures of how much of the used results was visible in prompts (docs/method.md, Measures).

Long because it finds the recall events and computes all measures of them.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from contextrender_bridge.engine.history.reuse import unescape
from contextrender_bridge.engine.history.tracked_tokens import CAPITAL_OR_UNDERSCORE, TextCache
from contextrender_bridge.engine.replay import let_requests_run
from contextrender_bridge.engine.text.tokens import call_parts, content_text

AGE_BINS: Final = (("<=3", 3), ("4-10", 10), ("11-25", 25), (">25", None))
"""The bins of ages. Each has a label and its largest age in turns, None if it has no limit."""
BY_AGE: Final = ("events_by_age", "visible_by_age")


@dataclass(frozen=True, slots=True)
class RecallEvent:
    """A turn's use of an earlier tool result.

    The turn repeats `tokens` whose first appearance in the transcript is in the result. `turn`
    counts assistant messages from 1, and `message` is the position of the turn's message. `result`
    is the result's number, and `position` the position of its message. `age` is the number of turns
    from the result's turn to this one.
    """

    turn: int
    message: int
    result: int
    position: int
    age: int
    tokens: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Source:
    """A result in which tokens appeared first: its number, its position and its turn."""

    result: int
    position: int
    turn: int


def recall_events(messages: Sequence[Mapping[str, Any]]) -> list[RecallEvent]:
    """Return an event for every assistant turn and every earlier result that the turn repeats.

    A token belongs to a result only if its first appearance in the transcript is in this result. An
    assistant's text and the arguments of its calls also count as appearances, but not the names of
    its calls. The events are in order.
    """
    trace = RecallTrace()
    return [event for message in messages for event in trace.add(message)]


class RecallTrace:
    """A finder of the recall events in a transcript, to which the messages are added in order."""

    def __init__(self) -> None:
        """Start before the first message."""
        self._sources: dict[str, _Source | None] = {}
        """The result in which each token appeared first, or None if that was another message."""
        self._turn_of_call: dict[str, int] = {}
        self._turn = self._result_count = self._position = 0

    def add(self, message: Mapping[str, Any]) -> list[RecallEvent]:
        """Add the next message, and return its recall events. Only an answer has any."""
        let_requests_run()  # long transcripts take seconds
        events: list[RecallEvent] = []
        source = None  # for a result: the source of the tokens that appear first in it
        if message.get("role") == "assistant":
            self._turn += 1
            tokens = frozenset(_assistant_tokens(message))
            events = _events_of(self._turn, self._position, tokens, self._sources)
            for call in message.get("tool_calls") or ():
                self._turn_of_call[str(call.get("id"))] = self._turn
        else:
            tokens = recall_tokens(content_text(message.get("content")))
        if message.get("role") == "tool":  # a result has the turn of its call
            turn = self._turn_of_call.get(str(message.get("tool_call_id")), self._turn)
            source = _Source(self._result_count, self._position, turn)
            self._result_count += 1
        # A token that appeared before keeps its first source.
        for token in tokens:
            self._sources.setdefault(token, source)
        self._position += 1
        return events


def age_bin(age: int) -> str:
    """Return the label of the bin that an age in turns belongs to."""
    return next(label for label, oldest in AGE_BINS if oldest is None or age <= oldest)


_WORD: Final = re.compile(r"[A-Za-z0-9_]{6,}")


def extract_words(text: str) -> set[str]:
    """Return the distinct words that the measures of recall compare (`docs/method.md`, Measures).

    A word has 6 or more letters, digits and underscores. At least one of these is an uppercase
    letter or an underscore.
    """
    words = set(_WORD.findall(unescape(text)))
    return {word for word in words if CAPITAL_OR_UNDERSCORE.search(word)}


recall_tokens: Final = TextCache(lambda text: frozenset(extract_words(text)), 16 * 2**20)
"""Returns the tokens of a text that recall compares (`extract_words`)."""


def unseen_tokens(tokens: frozenset[str], rendered: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the `tokens` that are nowhere in the rendered messages and their calls."""
    unseen = tokens
    for message in rendered:
        if not unseen:
            break
        unseen = unseen - recall_tokens(content_text(message.get("content")))
        for call in message.get("tool_calls") or ():
            for text in call_parts(call):
                unseen = unseen - recall_tokens(text)
    return unseen


def _zero_by_age() -> dict[str, int]:
    """Return a count of 0 for each bin of ages."""
    return dict.fromkeys((label for label, _ in AGE_BINS), 0)


@dataclass(slots=True)
class RecallScore:
    """Sums over the calls of runs, from which the measures of recall are computed.

    *Result recall* is the share of recall events whose result was complete in their turn's prompt.
    *Value recall* is the share of an event's tokens that were visible, as a mean over the events.
    `visible_value_shares` is the sum of these shares. A measure is None if there are no events. An
    invocation is a model call.
    """

    events_by_age: dict[str, int] = field(default_factory=_zero_by_age)
    visible_by_age: dict[str, int] = field(default_factory=_zero_by_age)
    visible_value_shares: float = 0.0
    turns: int = 0
    turns_with_all_values: int = 0
    invocations: int = 0
    over_budget: int = 0
    tokens_full: int = 0
    tokens_rendered: int = 0

    def add_turn(
        self,
        events: Sequence[RecallEvent],
        visible: Collection[int],
        rendered: Sequence[Mapping[str, Any]],
    ) -> None:
        """Add the recall events of one assistant turn. A turn without events changes nothing.

        `rendered` has the messages of the turn's prompt. `visible` has the positions of the results
        that this prompt showed complete.
        """
        if not events:
            return
        # Search the tokens of all events in the prompt at once.
        needed = frozenset[str]().union(*(event.tokens for event in events))
        unseen = unseen_tokens(needed, rendered)
        for event in events:
            label = age_bin(event.age)
            self.events_by_age[label] += 1
            self.visible_by_age[label] += event.position in visible
            visible_share = 1 - len(event.tokens & unseen) / len(event.tokens)
            self.visible_value_shares += visible_share
        self.turns += 1
        self.turns_with_all_values += not unseen

    def add_invocation(self, tokens_full: int, tokens_rendered: int, budget: int) -> None:
        """Count one model call, with the tokens of its full history and of its rendered prompt.

        The call is over budget if its full history has more than `budget` tokens. If the sizes
        include unbudgeted messages, the `budget` must include them, too.
        """
        self.invocations += 1
        self.over_budget += tokens_full > budget
        self.tokens_full += tokens_full
        self.tokens_rendered += tokens_rendered

    def merge(self, other: "RecallScore") -> None:
        """Add the sums of another score to this one."""
        for name in (score_field.name for score_field in fields(self)):
            value, other_value = getattr(self, name), getattr(other, name)
            if name in BY_AGE:
                value.update({age: value[age] + other_value[age] for age in value})
            else:
                setattr(self, name, value + other_value)

    @property
    def events(self) -> int:
        """The number of events."""
        return sum(self.events_by_age.values())

    @property
    def result_recall(self) -> float | None:
        """The share of events whose result was complete in the prompt of their turn."""
        return _share(sum(self.visible_by_age.values()), self.events)

    @property
    def result_recall_by_age(self) -> dict[str, float | None]:
        """The `result_recall` of the events of each age."""
        return {
            label: _share(self.visible_by_age[label], count)
            for label, count in self.events_by_age.items()
        }

    @property
    def value_recall(self) -> float | None:
        """The mean, over the events, of the share of their tokens that were visible."""
        return _share(self.visible_value_shares, self.events)

    @property
    def complete_turns(self) -> float | None:
        """The share of the turns with events in which all repeated tokens were visible."""
        return _share(self.turns_with_all_values, self.turns)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values. Events are recall events; invocations are calls."""
        return {
            "events": self.events,
            "events_by_age": dict(self.events_by_age),
            "result_recall": self.result_recall,
            "result_recall_by_age": self.result_recall_by_age,
            "value_recall": self.value_recall,
            "turns_with_events": self.turns,
            "turns_with_all_values": self.complete_turns,
            "invocations": self.invocations,
            "over_budget_invocations": self.over_budget,
            "tokens_full": self.tokens_full,
            "tokens_rendered": self.tokens_rendered,
        }


def _assistant_tokens(message: Mapping[str, Any]) -> set[str]:
    """Return the tokens (`recall_tokens`) of an assistant's text and of its calls' arguments."""
    tokens = set(recall_tokens(content_text(message.get("content"))))
    for call in message.get("tool_calls") or ():
        _, arguments = call_parts(call)
        tokens |= recall_tokens(arguments)
    return tokens


def _events_of(
    turn: int, position: int, tokens: frozenset[str], sources: Mapping[str, _Source | None]
) -> list[RecallEvent]:
    """Return a turn's recall events: one for each result that the turn repeats, in order.

    `position` is the position of the turn's message, and `tokens` are the tokens in it. `sources`
    maps a token to the result in which it appeared first, or to None for another message.
    """
    tokens_by_source: dict[_Source, set[str]] = {}
    for token in tokens:
        source = sources.get(token)
        if source is not None:
            tokens_by_source.setdefault(source, set()).add(token)
    return [
        RecallEvent(
            turn=turn,
            message=position,
            result=source.result,
            position=source.position,
            age=turn - source.turn,
            tokens=frozenset(tokens_by_source[source]),
        )
        for source in sorted(tokens_by_source, key=lambda source: source.result)
    ]


def _share(part: float, total: int) -> float | None:
    """Return the share of a part in a total, or None if the total is 0."""
    return part / total if total else None

"""A noted call, from its record, the uses that followed and the texts, without rendering.

Only where a text that stood in view cannot be told (one cut short, an excerpt that is not noted) is
it made anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Set
from dataclasses import dataclass
from itertools import batched

from contextrender_bridge.base.usage import Usage
from contextrender_bridge.engine.call.call_record import CallRecord, Standing, numbers_in, runs
from contextrender_bridge.engine.plan.excerpt_text import MARKED
from contextrender_bridge.engine.policies import policy_named
from contextrender_bridge.engine.replay import pause
from contextrender_bridge.engine.replay.branch_replay import BranchReplay
from contextrender_bridge.engine.replay.misses import MissingResult, lacks_at, unseen_in
from contextrender_bridge.engine.replay.parts import Parts
from contextrender_bridge.engine.replay.replayed_calls import ReplayedCall
from contextrender_bridge.engine.text.values import extract_values


class Stated:
    """Where values stand besides results: in texts, and in the calls that results answer."""

    def __init__(self, past: BranchReplay) -> None:
        self._past = past
        self._texts: dict[str, list[int]] = {}
        self._asked: dict[str, list[int]] = {}
        self._messages = self._results = 0
        self.parts = Parts(past)

    def grow(self) -> None:
        """Takes in what is new of the past."""
        past = self._past
        for message in range(self._messages, len(past.whole)):
            pause()
            if past.whole.roles[message] != "tool":
                for value in extract_values(past.text_of(message)):
                    self._texts.setdefault(value, []).append(message)
        for result in range(self._results, len(past.whole.results)):
            for value in extract_values(past.call_text_of(result)):
                self._asked.setdefault(value, []).append(result)
        self._messages, self._results = len(past.whole), len(past.whole.results)

    def holds(self, value: str, kept: Kept, shown: Set[int]) -> bool:
        """Whether a text that was kept holds it, or the call of a result that is shown."""
        places = self._texts.get(value, ())
        latest = bisect_left(places, kept.messages)
        if latest and places[latest - 1] >= kept.since:
            return True
        if any(place in kept.always for place in places[:latest]):
            return True
        return not shown.isdisjoint(self._asked.get(value, ()))

    def said_first(self, value: str) -> bool:
        """Whether a text or a call said it before any result: then it is no result's own."""
        results = self._past.whole.results
        first = self._past.whole.reuse.first_holder(value)
        texts, asked = self._texts.get(value, ()), self._asked.get(value, ())
        said = [*texts[:1], *(results.call_message[result] for result in asked[:1])]
        return any(position < results.message[first] for position in said)

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return 250 * (len(self._texts) + len(self._asked)) + self.parts.nbytes


@dataclass(slots=True, frozen=True)
class Kept:
    """Which texts of the first `messages` stood in view: those `since` a position, and `always`."""

    messages: int
    since: int
    always: frozenset[int]


def kept_texts(past: BranchReplay, messages: int, record: CallRecord) -> Kept | None:
    """The texts that a call showed; None if some were cut short.

    Whole oldest turns are dropped first (`engine.plan.retained_text`), so their tokens tell which.
    """
    whole, totals = past.whole, past.text_totals
    always = frozenset([*range(whole.leading_system), whole.first_user, past.user_before(messages)])
    left = totals[messages] - record.outside - record.retained
    if not left:
        return Kept(messages, 0, frozenset())
    early = sorted(position for position in always if 0 <= position < messages)
    for count in range(len(early), -1, -1):
        tokens = left + sum(whole.text_tokens[position] for position in early[:count])
        since = bisect_left(totals, tokens)
        if since <= messages and totals[since] == tokens and count == bisect_left(early, since):
            return Kept(messages, since, always)
    return None


def noted_step(past: BranchReplay, stated: Stated, turn: int, record: CallRecord) -> ReplayedCall:
    """Return the call before a turn, as it was recorded."""
    pause()
    messages = past.messages_before(turn)
    assert messages is not None
    standing, needed = Standing.noted(record), past.needed_at(turn)
    lacks = _lacks(past, stated, turn, messages, record, standing)
    before, output = past.total_before(turn - 1), past.output_of(turn)
    return ReplayedCall(
        turn,
        messages,
        record.results,
        record.before,
        record.after,
        record.outside,
        record.retained,
        record.shown,
        runs(standing.replaced) if record.back else record.replaced,
        needed,
        sum(result in standing.complete for result in needed),
        lacks,
        Usage.of_prompt(record.prompt, record.shared, output, record.embedded),
        Usage.of_prompt(record.full, before, output),
        record.budget,
        record.faulted,
        record.model,
        len(past.used_at(turn)),
    )


def _lacks(
    past: BranchReplay,
    stated: Stated,
    turn: int,
    messages: int,
    record: CallRecord,
    standing: Standing,
) -> tuple[MissingResult, ...]:
    def unseen(values: set[str]) -> set[str]:
        out = _unseen(past, stated, values, turn, messages, record, standing)
        if out is None and _had_all(past, turn, record) and not any(map(stated.said_first, values)):
            return set()
        if out is not None:
            return out
        rendered = past.render(past.history_before(messages), record.settings)
        return unseen_in(past, rendered, values)

    return lacks_at(past, turn, standing.complete, unseen)


def _had_all(past: BranchReplay, turn: int, record: CallRecord) -> bool:
    """Whether the call after it says that this turn missed nothing: what it follows has all values
    that a result said first.

    Only where both went on from what was shown before, in one way, with all of the text.
    """
    messages, after = past.messages_before(turn), past.record_at(turn + 1)
    return (
        after is not None
        and messages is not None
        and past.text_totals[messages] == record.outside + record.retained
        and policy_named(record.settings.policy).sizes_itself
        and after.settings == record.settings
        and not (record.sent_full or after.sent_full or after.faulted)
    )


def _unseen(
    past: BranchReplay,
    stated: Stated,
    values: set[str],
    turn: int,
    messages: int,
    record: CallRecord,
    standing: Standing,
) -> set[str] | None:
    """Those of the values that stood nowhere in view; None if a record cannot tell."""
    kept = kept_texts(past, messages, record)
    if kept is None:
        return None
    shown, own = standing.complete, frozenset(numbers_in(record.replaced))
    replaced = own.union(numbers_in(record.back))
    stated.grow()
    unseen = {value for value in values if not stated.holds(value, kept, shown | replaced)}
    for result in shown:
        if unseen:
            unseen -= _held(past, result, unseen)
    in_part = {result: held for result in replaced if (held := _held(past, result, unseen))}
    if not in_part:
        return unseen
    known = stated.parts.at(turn, shown | own)
    if not all(all(known.get(result, [()])) for result in in_part) or any(
        map(MARKED.fullmatch, unseen)
    ):
        return None
    for result, held in in_part.items():
        text = past.text_of(past.whole.results.message[result])
        for first, length in (pair for one in known[result] for pair in batched(one, 2)):
            unseen -= held & extract_values(text[first : first + length])
    return unseen


def _held(past: BranchReplay, result: int, values: set[str]) -> set[str]:
    text = past.text_of(past.whole.results.message[result])
    found = {value for value in values if value in text}
    return found & extract_values(text) if found else found

"""What a branch's model calls showed under some settings, recomputed one after the other."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from contextrender_bridge.base.usage import NOTHING_USED, Usage
from contextrender_bridge.engine.call.call_record import runs
from contextrender_bridge.engine.call.missing_results import MissingResult
from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.call.settings import SettingsByTurn
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.plan.ranking import RESULT_CHARACTERS
from contextrender_bridge.engine.plan.selection import RenderedMessage, Selection
from contextrender_bridge.engine.replay import pause
from contextrender_bridge.engine.replay.branch_replay import BranchReplay
from contextrender_bridge.engine.replay.misses import missing_in

MOST_TRAILS = 3
STEP_BYTES: Final = 2_000
"""What a call that is kept takes in memory, about."""


@dataclass(slots=True, frozen=True)
class ReplayedCall:
    """One model call: before turn `turn`, with `messages` messages and `results` results recorded.

    Tokens `before` and `after` are the history's within the budget's rule, `outside` those beside
    it. `complete` and `replaced` are runs of result numbers: first, length, first, length.
    What came back is among the replaced. `needed` are the results the turn then repeats a value of,
    `seen` how many of them it had. `uses` counts the results that the answer used, and `missed`
    what the call lacked. `budget` is the call's own, in
    tokens, and `faulted` tells that it grew because the turn before had missed something. `model`
    is as far as the call told it.
    """

    turn: int
    messages: int
    results: int
    before: int
    after: int
    outside: int
    retained: int
    complete: tuple[int, ...]
    replaced: tuple[int, ...]
    needed: tuple[int, ...]
    seen: int
    missed: tuple[MissingResult, ...]
    usage: Usage
    full: Usage
    budget: int = 0
    faulted: bool = False
    model: str = ""
    uses: int = 0

    @property
    def misses(self) -> int:
        """The number of misses: names of tools and fields do not count."""
        return sum(not lack.names_only for lack in self.missed)


@dataclass(slots=True)
class ReplayedCalls:
    """The calls of a branch, called in one way, as far as they have been recomputed."""

    by_turn: SettingsByTurn
    steps: list[ReplayedCall] = field(default_factory=list)
    prompt: list[tuple[RenderedMessage, int]] = field(default_factory=list)
    previous: tuple[str, Selection] | None = None
    embedded: int = 0


@dataclass(slots=True)
class Trails:
    """Trails that advance together over one growing history."""

    trails: list[ReplayedCalls]
    history: History = field(default_factory=History)
    full_prompt: int = 0


class Steps:
    """The calls of a past, called in the ways last asked for."""

    def __init__(self, past: BranchReplay) -> None:
        self._past = past
        self._trails: OrderedDict[tuple[SettingsByTurn, ...], Trails] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        groups = list(self._trails.values())
        steps = sum(len(trail.steps) for group in groups for trail in group.trails)
        return STEP_BYTES * steps + sum(group.history.nbytes for group in groups)

    def up_to(
        self, ways: Sequence[SettingsByTurn], last: int, deadline: float
    ) -> list[list[ReplayedCall]]:
        """The calls up to `last` called in each of these ways.

        Fewer, if the deadline (`time.monotonic()`) comes first.
        """
        group = self._trails.setdefault(tuple(ways), Trails([ReplayedCalls(one) for one in ways]))
        self._trails.move_to_end(tuple(ways))
        while len(self._trails) > MOST_TRAILS:
            self._trails.popitem(last=False)
        first = group.trails[0]
        spoken = len(self._past.invocations)
        while len(first.steps) < min(last, spoken):
            for trail, step in zip(group.trails, self._advance(group), strict=True):
                trail.steps.append(step)
            if time.monotonic() > deadline:
                break
        known = [trail.steps[:last] for trail in group.trails]
        if len(first.steps) == spoken < self._past.turns <= last:
            for steps, step in zip(known, self._advance(group), strict=True):
                steps.append(step)
        return known

    def _advance(self, group: Trails) -> list[ReplayedCall]:
        """The next call, called in each way."""
        turn = len(group.trails[0].steps) + 1
        messages = self._past.messages_before(turn)
        assert messages is not None
        self._past.grow(group.history, messages)
        made = [self._step(group, trail, turn) for trail in group.trails]
        if turn <= len(self._past.invocations):
            group.full_prompt = group.history.total_tokens
            for trail, (_, rendered, prompt) in zip(group.trails, made, strict=True):
                trail.prompt = prompt
                trail.previous = trail.by_turn.at(turn).policy, rendered.selection
        return [step for step, *_ in made]

    def _step(
        self, group: Trails, trail: ReplayedCalls, turn: int
    ) -> tuple[ReplayedCall, RenderedCall, list[tuple[RenderedMessage, int]]]:
        pause()
        done = turn <= len(self._past.invocations)
        history = group.history
        settings = trail.by_turn.at(turn)
        policy, known = trail.previous or ("", None)
        previous = known if policy == settings.policy else None
        rendered = self._past.render_after(previous, history, settings)
        prompt = [(item, self._tokens(rendered, item)) for item in rendered.items]
        output = sum(row["tokens"] for row in self._past.fields_of(len(history))) if done else 0
        usage = Usage.of_prompt(
            rendered.view.unbudgeted_tokens + rendered.tokens_after,
            _common(trail.prompt, prompt),
            output,
            self._embedded(trail, rendered, done),
        )
        full = Usage.of_prompt(history.total_tokens, group.full_prompt, output)
        step = step_of(self._past, turn, rendered, usage.plus(_model_usage(rendered)), full)
        return step, rendered, prompt

    def _tokens(self, rendered: RenderedCall, item: RenderedMessage) -> int:
        """Tokens of one message of a rendering."""
        head, *calls = self._past.fields_of(item.message)
        history = rendered.view.history
        if item.text is not None:
            own = rendered.view.counter.message({"content": item.text})
        else:
            own = history.text_tokens[item.message] or int(head["tokens"])
        return own + sum(int(calls[call]["tokens"]) for call in item.calls)

    def _embedded(self, trail: ReplayedCalls, rendered: RenderedCall, done: bool) -> int:
        """Tokens embedded for this call: the query, and results not embedded before.

        As if nothing had been embedded for any other purpose.
        """
        if not rendered.embedded_tokens:
            return 0
        history = rendered.view.history
        latest = {history.last_user, history.last_assistant} - {-1}
        total = sum(history.text_tokens[message] for message in latest)
        for result in range(trail.embedded, len(history.results)):
            size = len(self._past.text_of(history.results.message[result])) or 1
            share = min(1.0, RESULT_CHARACTERS / size)
            total += round(history.results.tokens[result] * share)
        if done:
            trail.embedded = len(history.results)
        return total


def step_of(
    past: BranchReplay, turn: int, rendered: RenderedCall, usage: Usage, full: Usage
) -> ReplayedCall:
    """The call before a turn, as a rendering of its history tells it."""
    selection, history = rendered.selection, rendered.view.history
    needed, complete = past.needed_at(turn), set(selection.complete)
    return ReplayedCall(
        turn,
        len(history),
        len(history.results),
        rendered.tokens_before,
        rendered.tokens_after,
        rendered.view.unbudgeted_tokens,
        rendered.text_tokens,
        runs(selection.complete),
        runs(selection.partial),
        needed,
        sum(result in complete for result in needed),
        missing_in(past, rendered, turn),
        usage,
        full,
        rendered.budget,
        selection.faulted,
        record.model if (record := past.record_at(turn)) else "",
        len(past.used_at(turn)),
    )


def _model_usage(rendered: RenderedCall) -> Usage:
    """Return what the policy's own model used."""
    return rendered.view.summaries.usage if rendered.view.summaries else NOTHING_USED


def _common(
    previous: list[tuple[RenderedMessage, int]], current: list[tuple[RenderedMessage, int]]
) -> int:
    """Tokens of the messages with which both prompts begin."""
    total = 0
    for (before, tokens), (now, _) in zip(previous, current, strict=False):
        if before != now:
            break
        total += tokens
    return total

"""A branch's model calls under some settings, recomputed in order."""

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

MAX_GROUPS = 3
STEP_BYTES: Final = 2_000
"""The memory of a replayed call, about."""


@dataclass(slots=True, frozen=True)
class ReplayedCall:
    """The model call of turn `turn`, with `messages` messages and `results` results before it.

    - `tokens_before` and `tokens_after` are the budgeted tokens of the history and of the prompt,
      `unbudgeted_tokens` the others; `text_tokens` are those of the prompt's texts.
    - `complete` and `partial` have the results by how the prompt shows them, as runs of numbers:
      first, length, first, length. Restored results are partial.
    - `needed` has the results whose values the answer repeats, and `needed_complete` counts those
      of them that were complete.
    - `missing_results` has the results that the answer used and the prompt did not show.
    - `usage` is the call's usage, `full_usage` that of the same call with full history.
    - `budget` is the call's own in tokens. `faulted`: the turn before had a miss.
    - `model` is empty if the call did not name one. `uses` counts the results that the answer used.
    """

    turn: int
    messages: int
    results: int
    tokens_before: int
    tokens_after: int
    unbudgeted_tokens: int
    text_tokens: int
    complete: tuple[int, ...]
    partial: tuple[int, ...]
    needed: tuple[int, ...]
    needed_complete: int
    missing_results: tuple[MissingResult, ...]
    usage: Usage
    full_usage: Usage
    budget: int = 0
    faulted: bool = False
    model: str = ""
    uses: int = 0

    @property
    def misses(self) -> int:
        """The number of misses. Names of tools and fields do not count."""
        return sum(not missing_result.names_only for missing_result in self.missing_results)


@dataclass(slots=True)
class ReplayedCalls:
    """The recomputed calls of a branch under one setting, and what the next call continues."""

    by_turn: SettingsByTurn
    steps: list[ReplayedCall] = field(default_factory=list)
    prompt: list[tuple[RenderedMessage, int]] = field(default_factory=list)
    previous: tuple[str, Selection] | None = None
    embedded: int = 0


@dataclass(slots=True)
class ReplayGroup:
    """Replays under several settings that advance together over one growing history.

    `full_prompt` has the tokens of the last call's full history.
    """

    replays: list[ReplayedCalls]
    history: History = field(default_factory=History)
    full_prompt: int = 0


class Replays:
    """The replayed calls of a branch, under the settings of the last requests."""

    def __init__(self, past: BranchReplay) -> None:
        self._past = past
        self._groups: OrderedDict[tuple[SettingsByTurn, ...], ReplayGroup] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        groups = list(self._groups.values())
        steps = sum(len(replay.steps) for group in groups for replay in group.replays)
        return STEP_BYTES * steps + sum(group.history.nbytes for group in groups)

    def up_to(
        self, settings: Sequence[SettingsByTurn], last_turn: int, deadline: float
    ) -> list[list[ReplayedCall]]:
        """Return the calls up to `last_turn` under each of these settings.

        Return fewer calls if the deadline (`time.monotonic()`) passes first.
        """
        group = self._group(tuple(settings))
        first_replay = group.replays[0]
        answered_calls = len(self._past.invocations)
        while len(first_replay.steps) < min(last_turn, answered_calls):
            for replay, step in zip(group.replays, self._advance(group), strict=True):
                replay.steps.append(step)
            if time.monotonic() > deadline:
                break
        calls = [replay.steps[:last_turn] for replay in group.replays]
        if len(first_replay.steps) == answered_calls < self._past.turns <= last_turn:
            # The last call has no answer yet and may change, so it is not kept.
            for steps, step in zip(calls, self._advance(group), strict=True):
                steps.append(step)
        return calls

    def _group(self, settings: tuple[SettingsByTurn, ...]) -> ReplayGroup:
        """Return the group of these settings, a new one if there is none."""
        new_group = ReplayGroup([ReplayedCalls(by_turn) for by_turn in settings])
        group = self._groups.setdefault(settings, new_group)
        self._groups.move_to_end(settings)
        while len(self._groups) > MAX_GROUPS:
            self._groups.popitem(last=False)
        return group

    def _advance(self, group: ReplayGroup) -> list[ReplayedCall]:
        """Return the group's next call under each of its settings."""
        turn = len(group.replays[0].steps) + 1
        messages = self._past.messages_before(turn)
        assert messages is not None
        self._past.grow(group.history, messages)
        calls = [self._step(group, replay, turn) for replay in group.replays]
        if turn <= len(self._past.invocations):
            group.full_prompt = group.history.total_tokens
            for replay, (_, rendered, prompt) in zip(group.replays, calls, strict=True):
                replay.prompt = prompt
                replay.previous = replay.by_turn.at(turn).policy, rendered.selection
        return [step for step, *_ in calls]

    def _step(
        self, group: ReplayGroup, replay: ReplayedCalls, turn: int
    ) -> tuple[ReplayedCall, RenderedCall, list[tuple[RenderedMessage, int]]]:
        """Return a replay's next call with its rendering, and its prompt with tokens."""
        pause()
        is_answered = turn <= len(self._past.invocations)
        history = group.history
        settings = replay.by_turn.at(turn)
        policy, selection = replay.previous or ("", None)
        previous = selection if policy == settings.policy else None
        rendered = self._past.render_after(previous, history, settings)
        prompt = [(item, self._tokens(rendered, item)) for item in rendered.items]
        usage = Usage.of_prompt(
            rendered.view.unbudgeted_tokens + rendered.tokens_after,
            _common_tokens(replay.prompt, prompt),
            self._past.output_of(turn),
            self._embedded_tokens(replay, rendered, is_answered),
        )
        full = Usage.of_prompt(history.total_tokens, group.full_prompt, self._past.output_of(turn))
        step = step_of(self._past, turn, rendered, usage.plus(_model_usage(rendered)), full)
        return step, rendered, prompt

    def _tokens(self, rendered: RenderedCall, item: RenderedMessage) -> int:
        """Return the tokens of one message of a rendering."""
        head, *calls = self._past.fields_of(item.message)
        history = rendered.view.history
        if item.text is not None:
            text_tokens = rendered.view.counter.message({"content": item.text})
        else:
            text_tokens = history.text_tokens[item.message] or int(head["tokens"])
        return text_tokens + sum(int(calls[call]["tokens"]) for call in item.calls)

    def _embedded_tokens(
        self, replay: ReplayedCalls, rendered: RenderedCall, is_answered: bool
    ) -> int:
        """Return the tokens embedded for this call: the query, and results not embedded before.

        Embeddings for other purposes than this replay do not count.
        """
        if not rendered.embedded_tokens:
            return 0
        history = rendered.view.history
        latest = {history.last_user, history.last_assistant} - {-1}
        total = sum(history.text_tokens[message] for message in latest)
        for result in range(replay.embedded, len(history.results)):
            size = len(self._past.text_of(history.results.message[result])) or 1
            share = min(1.0, RESULT_CHARACTERS / size)
            total += round(history.results.tokens[result] * share)
        if is_answered:
            replay.embedded = len(history.results)
        return total


def step_of(
    past: BranchReplay, turn: int, rendered: RenderedCall, usage: Usage, full: Usage
) -> ReplayedCall:
    """Return the call of a turn from a rendering of its history."""
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
    """Return the usage of the policy's own model calls."""
    return rendered.view.summaries.usage if rendered.view.summaries else NOTHING_USED


def _common_tokens(
    previous: list[tuple[RenderedMessage, int]], current: list[tuple[RenderedMessage, int]]
) -> int:
    """Return the tokens of the messages that both prompts begin with."""
    total = 0
    for (before, tokens), (now, _) in zip(previous, current, strict=False):
        if before != now:
            break
        total += tokens
    return total

"""A branch's model calls under some settings, recomputed in order.

Long because a call has many figures, which are all computed from one rendering.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from contextrender_bridge.base.usage import Usage
from contextrender_bridge.engine.call.call_record import CallRecord, to_runs
from contextrender_bridge.engine.call.missing_results import MissingResult
from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.call.settings import SettingsByTurn
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.plan.ranking import RESULT_CHARACTERS, tokens_of_part
from contextrender_bridge.engine.plan.selection import PlannedMessage, Selection
from contextrender_bridge.engine.replay import let_requests_run
from contextrender_bridge.engine.replay.branch_replay import BranchReplay
from contextrender_bridge.engine.replay.misses import missing_in

MAX_GROUPS = 3
CALL_BYTES: Final = 2_000
"""An estimate of the memory of a replayed call."""


@dataclass(slots=True, frozen=True)
class ReplayedCall:
    """The model call of turn `turn`, with `messages` messages and `results` results before it.

    - `tokens_before` and `tokens_after` are the budgeted tokens of the history and of the prompt.
      `unbudgeted_tokens` are the tokens of the system prompt and the current user message.
      `text_tokens` are the budgeted tokens of the prompt's texts, without results and calls.
    - `complete` and `partial` have the results that the prompt shows complete and in part, as runs
      of numbers: first, length, first, length. Restored results are partial.
    - `missing_results` has the results that the answer used and the prompt did not show.
    - `usage` is the call's usage. `full_usage` is the usage of the same call with full history.
    - `budget` is the budget of this call in tokens. `follows_miss` is true if the turn before had a
      miss.
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
    missing_results: tuple[MissingResult, ...]
    usage: Usage
    full_usage: Usage
    budget: int = 0
    follows_miss: bool = False
    model: str = ""
    uses: int = 0

    def has_complete(self, result: int) -> bool:
        """Return whether the prompt shows a result complete."""
        runs = zip(self.complete[::2], self.complete[1::2], strict=True)
        return any(first <= result < first + length for first, length in runs)

    @property
    def misses(self) -> int:
        """The number of misses. Names of tools and fields do not count."""
        return sum(not missing_result.names_only for missing_result in self.missing_results)


SELECTION_EVERY: Final = 50
"""A replay keeps the selection of each call whose turn is a multiple of this."""

Prompt = list[tuple[PlannedMessage, int]]
"""The messages of a prompt, each with its tokens."""


@dataclass(slots=True)
class ReplayedCalls:
    """The recomputed calls of a branch under one setting, and the data that the next call needs.

    `prompt` is the prompt of the last answered call. `previous` has the policy and the selection of
    the same call. `selections` has the policies and selections of some earlier calls, in order, so
    that any call can be rendered soon (`Replays.selection_before`). `embedded_results` is the
    number of results that were embedded for answered calls.
    """

    by_turn: SettingsByTurn
    calls: list[ReplayedCall] = field(default_factory=list)
    prompt: Prompt = field(default_factory=list)
    previous: tuple[str, Selection] | None = None
    selections: list[tuple[str, Selection]] = field(default_factory=list)
    embedded_results: int = 0


@dataclass(slots=True)
class ReplayGroup:
    """Replays under several settings that advance together over one growing history.

    `full_prompt_tokens` are the tokens of the last answered call's full history.
    """

    replays: list[ReplayedCalls]
    history: History = field(default_factory=History)
    full_prompt_tokens: int = 0

    @property
    def call_count(self) -> int:
        """The number of calls that each replay has."""
        return len(self.replays[0].calls)


class Replays:
    """The replayed calls of a branch, under the settings of the last requests."""

    def __init__(self, branch: BranchReplay) -> None:
        """Start without replayed calls of `branch`."""
        self._branch = branch
        self._groups: OrderedDict[tuple[SettingsByTurn, ...], ReplayGroup] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        groups = list(self._groups.values())
        replays = [replay for group in groups for replay in group.replays]
        calls = sum(len(replay.calls) for replay in replays)
        selections = sum(
            selection.nbytes for replay in replays for _, selection in replay.selections
        )
        return CALL_BYTES * calls + selections + sum(group.history.nbytes for group in groups)

    def up_to(
        self, settings: Sequence[SettingsByTurn], last_turn: int, deadline: float
    ) -> list[list[ReplayedCall]]:
        """Return one list of calls up to `last_turn` for each of these settings.

        Calls that were replayed before are not computed again. Return fewer calls if
        `time.monotonic()` reaches the deadline first.
        """
        # Replay the answered calls, which stay in the group.
        group = self._group(tuple(settings))
        answered_count = len(self._branch.answer_positions)
        while group.call_count < min(last_turn, answered_count):
            for replay, call in zip(group.replays, self._next_calls(group), strict=True):
                replay.calls.append(call)
            if time.monotonic() > deadline:
                break
        calls_by_setting = [replay.calls[:last_turn] for replay in group.replays]
        has_unanswered_call = answered_count < self._branch.turns <= last_turn
        if has_unanswered_call and group.call_count == answered_count:
            # The last call has no answer yet and may change, so the group does not keep it.
            for calls, call in zip(calls_by_setting, self._next_calls(group), strict=True):
                calls.append(call)
        return calls_by_setting

    def selection_before(self, by_turn: SettingsByTurn, turn: int, policy: str) -> Selection | None:
        """Return the selection of an answered call shortly before a turn, or None if there is none.

        First replay the calls up to it, if that was not done before. Return None if the call has
        another policy than `policy`.
        """
        answered_count = min(turn - 1, len(self._branch.answer_positions))
        group = next(
            (
                group
                for settings, group in self._groups.items()
                if by_turn in settings and group.call_count >= answered_count
            ),
            None,
        )
        if group is None:
            self.up_to([by_turn], answered_count, deadline=inf)
            group = self._groups[by_turn,]
        (replay,) = (replay for replay in group.replays if replay.by_turn == by_turn)
        messages = self._branch.messages_before(turn) or 0
        newest = [replay.previous] if replay.previous else []
        earlier = [pair for pair in replay.selections + newest if pair[1].messages < messages]
        if not earlier:
            return None
        selected_policy, selection = earlier[-1]
        return selection if selected_policy == policy else None

    def _group(self, settings: tuple[SettingsByTurn, ...]) -> ReplayGroup:
        """Return the group of these settings, or add a new group if there is none.

        Above `MAX_GROUPS`, the least recently used group is dropped.
        """
        new_group = ReplayGroup([ReplayedCalls(by_turn) for by_turn in settings])
        group = self._groups.setdefault(settings, new_group)
        self._groups.move_to_end(settings)
        while len(self._groups) > MAX_GROUPS:
            self._groups.popitem(last=False)
        return group

    def _next_calls(self, group: ReplayGroup) -> list[ReplayedCall]:
        """Return the group's next call under each of its settings.

        If the call is answered, store its prompt and selection in the replays, because their next
        calls continue it.
        """
        turn = group.call_count + 1
        messages = self._branch.messages_before(turn)
        assert messages is not None
        self._branch.grow(group.history, messages)
        next_calls = [self._next_call(group, replay, turn) for replay in group.replays]
        # Change the replays only after all computations, because a computation may fail.
        if self._branch.is_answered(turn):
            group.full_prompt_tokens = group.history.total_tokens
            for replay, (_, selection, prompt) in zip(group.replays, next_calls, strict=True):
                replay.prompt = prompt
                replay.previous = replay.by_turn.at(turn).policy, selection
                if turn % SELECTION_EVERY == 0:
                    replay.selections.append(replay.previous)
        return [call for call, *_ in next_calls]

    def _next_call(
        self, group: ReplayGroup, replay: ReplayedCalls, turn: int
    ) -> tuple[ReplayedCall, Selection, Prompt]:
        """Return a replay's call of `turn`, the call's selection and the call's prompt.

        `group.history` must have exactly the messages before the call.
        """
        let_requests_run()
        history = group.history
        settings = replay.by_turn.at(turn)
        previous_policy, selection = replay.previous or ("", None)
        # A selection of another policy is not continued.
        previous = selection if previous_policy == settings.policy else None
        rendered = self._branch.render_after(previous, history, settings)
        prompt = [(item, self._tokens(rendered, item)) for item in rendered.items]
        output = self._branch.output_of(turn)
        # The messages that this prompt and the last one begin with count as read from the cache.
        # With full history, these are all messages of the last call.
        usage = Usage.of_prompt(
            rendered.context.unbudgeted_tokens + rendered.tokens_after,
            _common_tokens(replay.prompt, prompt),
            output,
            self._embedded_tokens(replay, rendered, is_answered=self._branch.is_answered(turn)),
        )
        full_usage = Usage.of_prompt(history.total_tokens, group.full_prompt_tokens, output)
        call = replayed_call(self._branch, turn, rendered, usage, full_usage)
        return call, rendered.selection, prompt

    def _tokens(self, rendered: RenderedCall, item: PlannedMessage) -> int:
        """Return the tokens of one message of a prompt. Cut arguments count as complete."""
        head, *calls = self._branch.fields_of(item["message"])
        if item["text"] is not None:
            text_tokens = rendered.context.counter.message({"content": item["text"]})
        else:
            text_tokens = int(head["tokens"])
        return text_tokens + sum(int(calls[call]["tokens"]) for call in item["calls"])

    def _embedded_tokens(
        self, replay: ReplayedCalls, rendered: RenderedCall, *, is_answered: bool
    ) -> int:
        """Return the tokens that a session under these settings would have embedded for this call.

        They are the tokens of the latest messages, and of the results that no earlier call
        embedded. If the call is answered, count its results as embedded from now on. A call without
        an answer will be replayed again, so its results do not count as embedded.
        """
        if not rendered.embedded_tokens:  # the policy did not embed anything for this call
            return 0
        history = rendered.context.history
        latest = {history.last_user, history.last_assistant} - {-1}
        total = sum(history.text_tokens[message] for message in latest)
        for result in range(replay.embedded_results, len(history.results)):
            text = self._branch.text_of(history.results.message[result])
            total += tokens_of_part(history.results.tokens[result], text, RESULT_CHARACTERS)
        if is_answered:
            replay.embedded_results = len(history.results)
        return total


def replayed_call(
    branch: BranchReplay, turn: int, rendered: RenderedCall, usage: Usage, full_usage: Usage
) -> ReplayedCall:
    """Return the figures of a turn's call, from a rendering of the history before it.

    `usage` is the call's usage, and `full_usage` its usage with full history. If the call has no
    answer, `missing_results` is empty and `uses` is 0.
    """
    selection, history = rendered.selection, rendered.context.history
    record = branch.record_at(turn)
    return ReplayedCall(
        turn=turn,
        messages=len(history),
        results=len(history.results),
        tokens_before=rendered.tokens_before,
        tokens_after=rendered.tokens_after,
        unbudgeted_tokens=rendered.context.unbudgeted_tokens,
        text_tokens=rendered.text_tokens,
        complete=to_runs(selection.complete),
        partial=to_runs(selection.partial),
        missing_results=missing_in(branch, rendered, turn),
        usage=usage,
        full_usage=full_usage,
        budget=rendered.budget,
        follows_miss=selection.follows_miss,
        model=record.model if record else "",
        uses=len(branch.used_at(turn)),
    )


def call_of_record(
    record: CallRecord,
    *,
    turn: int,
    messages: int,
    complete: Iterable[int],
    partial: Iterable[int],
    missing_results: tuple[MissingResult, ...],
    usage: Usage,
    full_usage: Usage,
    uses: int,
) -> ReplayedCall:
    """Return a call as it was recorded. See `ReplayedCall` for the other arguments.

    `complete` and `partial` have the numbers of the results that the prompt showed.
    """
    return ReplayedCall(
        turn=turn,
        messages=messages,
        results=record.result_count,
        tokens_before=record.tokens_before,
        tokens_after=record.tokens_after,
        unbudgeted_tokens=record.unbudgeted_tokens,
        text_tokens=record.text_tokens,
        complete=to_runs(complete),
        partial=to_runs(partial),
        missing_results=missing_results,
        usage=usage,
        full_usage=full_usage,
        budget=record.budget,
        follows_miss=record.follows_miss,
        model=record.model,
        uses=uses,
    )


def _common_tokens(previous: Prompt, current: Prompt) -> int:
    """Return the tokens of the first messages that both prompts share."""
    total = 0
    for (previous_message, tokens), (message, _) in zip(previous, current, strict=False):
        if message != previous_message:
            break
        total += tokens
    return total

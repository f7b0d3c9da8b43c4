"""The replays cached in this process, and the policies that they can be recomputed under."""

import threading
from collections import OrderedDict

from contextrender_bridge.base.usage import NOTHING_USED, Usage
from contextrender_bridge.engine.call.call_record import CallRecord, runs
from contextrender_bridge.engine.call.result_life import is_told_by_lives
from contextrender_bridge.engine.call.settings import RenderSettings, SettingsByTurn
from contextrender_bridge.engine.models.embeddings import Embedder
from contextrender_bridge.engine.policies import POLICIES, policy_named
from contextrender_bridge.engine.replay import pause
from contextrender_bridge.engine.replay.branch_replay import BranchReplay
from contextrender_bridge.engine.replay.misses import Miss, misses_of
from contextrender_bridge.engine.replay.replayed_calls import (
    STEP_BYTES,
    ReplayedCall,
    Replays,
    step_of,
)
from contextrender_bridge.engine.text.tokens import TokenCounter

MAX_REPLAYS = 8


class CachedReplay(BranchReplay):
    """A branch's replay with its recorded calls, and its calls under other settings."""

    def __init__(self, embedder: Embedder, counter: TokenCounter) -> None:
        super().__init__(embedder, counter)
        self.steps = Replays(self)
        self._recorded_calls: dict[int, ReplayedCall] = {}
        """By turn: the calls that the store has."""
        self._misses: dict[int, tuple[Miss, ...]] = {}
        """By turn."""
        self._single_calls: dict[tuple[int, RenderSettings], ReplayedCall] = {}
        """By turn and settings: calls recomputed alone, without the calls before them."""

    def call_before(
        self, turn: int, by_turn: SettingsByTurn, deadline: float
    ) -> ReplayedCall | None:
        """Return a call as it was recorded, or else recomputed under its settings.

        Return None if the deadline (`time.monotonic()`) passes before it is recomputed.
        """
        if (cached := self._recorded_calls.get(turn)) is not None:
            return cached
        if (record := self.record_at(turn)) is None:
            (steps,) = self.steps.up_to([by_turn], turn, deadline)
            return steps[turn - 1] if len(steps) >= turn else None
        pause()
        step = recorded_call(self, turn, record)
        if turn <= len(self.invocations):
            self._recorded_calls[turn] = step
        return step

    def call_alone(
        self, turn: int, by_turn: SettingsByTurn, deadline: float
    ) -> ReplayedCall | None:
        """Return a call as `call_before` does, but recompute no earlier calls if possible.

        That is possible unless the policy tracks tokens. Then the call has no usage.
        """
        settings = by_turn.at(turn)
        if self.record_at(turn) is not None or policy_named(settings.policy).tracks:
            return self.call_before(turn, by_turn, deadline)
        messages = self.messages_before(turn)
        assert messages is not None
        cached = self._single_calls.get((turn, settings))
        if cached is not None and cached.messages == messages:
            return cached
        pause()
        rendered = self.render(self.history_before(messages), settings)
        step = step_of(self, turn, rendered, NOTHING_USED, NOTHING_USED)
        if turn <= len(self.invocations):
            self._single_calls[turn, settings] = step
        return step

    def misses_at(self, step: ReplayedCall, by_turn: SettingsByTurn) -> tuple[Miss, ...]:
        """Return a call's misses, with reasons from its results' lives or from its rendering."""
        if step.missing_results and step.turn not in self._misses:
            record = self.record_at(step.turn)
            if record is not None and is_told_by_lives(record):
                self._misses[step.turn] = self._misses_recorded(step, record)
            else:
                settings = record.settings if record else by_turn.at(step.turn)
                rendered = self.render(self.history_before(step.messages), settings)
                self._misses[step.turn] = misses_of(rendered, step.missing_results)
        return self._misses.get(step.turn, ())

    def _misses_recorded(self, step: ReplayedCall, record: CallRecord) -> tuple[Miss, ...]:
        """Return a recorded call's misses with the reasons that `explain` gives."""
        results = self.full_history.results
        lives = self.lives_of([missing_result.result for missing_result in step.missing_results])
        misses: list[Miss] = []
        for missing_result in step.missing_results:
            number = missing_result.result
            decision = lives[number].decision(step.turn, record.remaining_tokens)
            cost = results.tokens[number] + results.call_tokens[number]
            misses.append(
                Miss(
                    missing_result,
                    decision.display,
                    cost,
                    decision.reason,
                    decision.remaining_tokens,
                    None,
                )
            )
        return tuple(misses)

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        steps = len(self._recorded_calls) + len(self._misses) + len(self._single_calls)
        return super().nbytes + self.steps.nbytes + STEP_BYTES * steps


def recorded_call(past: BranchReplay, turn: int, record: CallRecord) -> ReplayedCall:
    """Return the call of a turn as it was recorded."""
    messages = past.messages_before(turn)
    assert messages is not None
    (complete, partial), needed = past.shown_at(messages), past.needed_at(turn)
    before, output = past.total_before(turn - 1), past.output_of(turn)
    return ReplayedCall(
        turn,
        messages,
        record.results,
        record.before,
        record.after,
        record.outside,
        record.retained,
        runs(complete),
        runs(partial),
        needed,
        sum(result in complete for result in needed),
        past.missing_results.get(messages, ()),
        Usage.of_prompt(record.prompt, record.shared, output, record.embedded),
        Usage.of_prompt(record.full, before, output),
        record.budget,
        record.faulted,
        record.model,
        len(past.used_at(turn)),
    )


class ReplayCache:
    """A thread-safe cache of replays, of at most `limit` bytes besides the newest one.

    The least recently used replays are dropped.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._guard = threading.Lock()
        self._replays: OrderedDict[object, CachedReplay] = OrderedDict()

    def get(self, key: object, embedder: Embedder, counter: TokenCounter) -> CachedReplay:
        """Return the replay of that key, a new one if it is not cached."""
        with self._guard:
            replay = self._replays.setdefault(key, CachedReplay(embedder, counter))
            self._replays.move_to_end(key)
            while len(self._replays) > 1 and (
                len(self._replays) > MAX_REPLAYS or self.nbytes > self.limit
            ):
                self._replays.popitem(last=False)
            return replay

    @property
    def nbytes(self) -> int:
        """The memory of the replays in bytes, an estimate for a replay that is being used."""
        return sum(replay.nbytes for replay in list(self._replays.values()))


def policies_without_model(session_policy: str) -> list[str]:
    """Return the policies that a session can be replayed under.

    They are the policies that need no model, and the session's own.
    """
    return [
        name
        for name, policy in POLICIES.items()
        if not policy.needs_model or name == session_policy
    ]

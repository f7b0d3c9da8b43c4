"""The pasts kept in process, and the policies by which they can be recomputed."""

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
    Steps,
    step_of,
)
from contextrender_bridge.engine.text.tokens import TokenCounter

MOST_PASTS = 8


class CachedReplay(BranchReplay):
    """A past, its calls as they were made, and in the other ways last asked for."""

    def __init__(self, embedder: Embedder, counter: TokenCounter) -> None:
        super().__init__(embedder, counter)
        self.steps = Steps(self)
        self._noted: dict[int, ReplayedCall] = {}
        self._misses: dict[int, tuple[Miss, ...]] = {}
        self._alone: dict[tuple[int, RenderSettings], ReplayedCall] = {}

    def call_before(
        self, turn: int, by_turn: SettingsByTurn, deadline: float
    ) -> ReplayedCall | None:
        """A call as it was noted when it was made, or else as its settings would have it.

        None if the deadline (`time.monotonic()`) comes before that is recomputed.
        """
        if (known := self._noted.get(turn)) is not None:
            return known
        if (record := self.record_at(turn)) is None:
            (steps,) = self.steps.up_to([by_turn], turn, deadline)
            return steps[turn - 1] if len(steps) >= turn else None
        pause()
        step = recorded_call(self, turn, record)
        if turn <= len(self.invocations):
            self._noted[turn] = step
        return step

    def call_alone(
        self, turn: int, by_turn: SettingsByTurn, deadline: float
    ) -> ReplayedCall | None:
        """As `call_before`, without the calls before it where its policy keeps nothing of texts.

        What such a call and full history used is not told.
        """
        settings = by_turn.at(turn)
        if self.record_at(turn) is not None or policy_named(settings.policy).tracks:
            return self.call_before(turn, by_turn, deadline)
        messages = self.messages_before(turn)
        assert messages is not None
        if (known := self._alone.get((turn, settings))) is not None and known.messages == messages:
            return known
        pause()
        rendered = self.render(self.history_before(messages), settings)
        step = step_of(self, turn, rendered, NOTHING_USED, NOTHING_USED)
        if turn <= len(self.invocations):
            self._alone[turn, settings] = step
        return step

    def misses_at(self, step: ReplayedCall, by_turn: SettingsByTurn) -> tuple[Miss, ...]:
        """Return what a call lacked and why: by its results' lives, or else by its rendering."""
        if step.missed and step.turn not in self._misses:
            record = self.record_at(step.turn)
            if record is not None and is_told_by_lives(record):
                self._misses[step.turn] = self._misses_recorded(step, record)
            else:
                settings = record.settings if record else by_turn.at(step.turn)
                rendered = self.render(self.history_before(step.messages), settings)
                self._misses[step.turn] = misses_of(rendered, step.missed)
        return self._misses.get(step.turn, ())

    def _misses_recorded(self, step: ReplayedCall, record: CallRecord) -> tuple[Miss, ...]:
        """Return a recorded call's misses with the reasons that `explain` gives."""
        results = self.whole.results
        lives = self.lives_of([lack.result for lack in step.missed])
        return tuple(
            Miss(
                lack,
                decision.shown,
                results.tokens[lack.result] + results.call_tokens[lack.result],
                decision.reason,
                decision.left,
                None,
            )
            for lack in step.missed
            for decision in [lives[lack.result].decision(step.turn, record.remaining_tokens)]
        )

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        steps = len(self._noted) + len(self._misses) + len(self._alone)
        return super().nbytes + self.steps.nbytes + STEP_BYTES * steps


def recorded_call(past: BranchReplay, turn: int, record: CallRecord) -> ReplayedCall:
    """Return the call before a turn, as it was recorded."""
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
        past.missing.get(messages, ()),
        Usage.of_prompt(record.prompt, record.shared, output, record.embedded),
        Usage.of_prompt(record.full, before, output),
        record.budget,
        record.faulted,
        record.model,
        len(past.used_at(turn)),
    )


class ReplayCache:
    """The pasts kept in process, at most `limit` bytes or the one in use; safe between threads.

    The least recently used are let go.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._guard = threading.Lock()
        self._held: OrderedDict[object, CachedReplay] = OrderedDict()

    def get(self, key: object, embedder: Embedder, counter: TokenCounter) -> CachedReplay:
        """The past of that key, a new one if it is not held."""
        with self._guard:
            past = self._held.setdefault(key, CachedReplay(embedder, counter))
            self._held.move_to_end(key)
            while len(self._held) > 1 and (
                len(self._held) > MOST_PASTS or self.nbytes > self.limit
            ):
                self._held.popitem(last=False)
            return past

    @property
    def nbytes(self) -> int:
        """What they hold, in bytes; about so much while they are being used."""
        return sum(past.nbytes for past in list(self._held.values()))


def policies_without_model(own: str) -> list[str]:
    """The policies a past can be looked at under: those that need no model, and a session's own."""
    return [name for name, policy in POLICIES.items() if not policy.needs_model or name == own]

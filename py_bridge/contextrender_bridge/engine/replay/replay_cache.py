"""The pasts kept in process, and the policies by which they can be recomputed."""

import threading
from collections import OrderedDict

from contextrender_bridge.base.usage import NOTHING_USED
from contextrender_bridge.engine.call.call_record import CallRecord, numbers_in
from contextrender_bridge.engine.call.settings import RenderSettings, SettingsByTurn
from contextrender_bridge.engine.models.embeddings import Embedder
from contextrender_bridge.engine.policies import POLICIES, policy_named
from contextrender_bridge.engine.policies.by_density import IN_PART
from contextrender_bridge.engine.replay import pause
from contextrender_bridge.engine.replay.branch_replay import BranchReplay
from contextrender_bridge.engine.replay.misses import Miss, misses_of
from contextrender_bridge.engine.replay.parts import Stays
from contextrender_bridge.engine.replay.recorded import Stated, noted_step
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
        self._stated = Stated(self)
        self._stays = Stays(self)
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
        step = noted_step(self, self._stated, turn, record)
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
        """What a call lacked, with the reasons that its rendering gives."""
        if step.missed and step.turn not in self._misses:
            record = self.record_at(step.turn)
            if record and policy_named(record.settings.policy).sizes_itself:
                self._misses[step.turn] = self._misses_noted(step, record)
            else:
                settings = record.settings if record else by_turn.at(step.turn)
                rendered = self.render(self.history_before(step.messages), settings)
                self._misses[step.turn] = misses_of(rendered, step.missed)
        return self._misses.get(step.turn, ())

    def _misses_noted(self, step: ReplayedCall, record: CallRecord) -> tuple[Miss, ...]:
        """The same from what was noted: when each result left, and what was kept free."""
        results, replaced = self.whole.results, set(numbers_in(step.replaced))
        found = []
        for lack in step.missed:
            shown = "excerpt" if lack.result in replaced else "omitted"
            left = self._stays.left_at(lack.result, step.turn)
            reason = IN_PART if shown == "excerpt" else left_out(left)
            cost = results.tokens[lack.result] + results.call_tokens[lack.result]
            found.append(Miss(lack, shown, cost, reason, record.budget - record.after, None))
        return tuple(found)

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        steps = len(self._noted) + len(self._misses) + len(self._alone)
        kept = STEP_BYTES * steps + self._stated.nbytes
        return super().nbytes + self.steps.nbytes + kept


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


def left_out(turn: int | None) -> str:
    """Why a result was out of view of a call that went on from the one before it."""
    return f"dropped when the prompt was rebuilt at call {turn}" if turn else "never in view so far"


def policies_without_model(own: str) -> list[str]:
    """The policies a past can be looked at under: those that need no model, and a session's own."""
    return [name for name, policy in POLICIES.items() if not policy.needs_model or name == own]

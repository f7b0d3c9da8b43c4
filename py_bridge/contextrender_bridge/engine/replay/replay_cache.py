"""The replays of branches that are cached in this process."""

import threading
from collections import OrderedDict
from collections.abc import Callable

from contextrender_bridge.base.usage import NOTHING_USED, Usage
from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.display_history import recorded_decision
from contextrender_bridge.engine.call.settings import RenderSettings, SettingsByTurn
from contextrender_bridge.engine.models.embeddings import Embedder
from contextrender_bridge.engine.policies import policy_named
from contextrender_bridge.engine.replay import let_requests_run
from contextrender_bridge.engine.replay.branch_replay import BranchReplay
from contextrender_bridge.engine.replay.misses import Miss, misses_of
from contextrender_bridge.engine.replay.replayed_calls import (
    CALL_BYTES,
    ReplayedCall,
    Replays,
    call_of_record,
    replayed_call,
)
from contextrender_bridge.engine.text.tokens import TokenCounter

MAX_REPLAYS = 8


class CachedReplay(BranchReplay):
    """A branch's replay with caches of its recorded calls and of its recomputed calls."""

    def __init__(self, embedder: Embedder, counter: TokenCounter) -> None:
        """Create the replay of a branch with empty caches."""
        super().__init__(embedder, counter)
        self.replays = Replays(self)
        self._recorded_calls: dict[int, ReplayedCall] = {}  # by turn
        self._misses: dict[int, tuple[Miss, ...]] = {}  # by turn
        self._single_calls: dict[tuple[int, RenderSettings], ReplayedCall] = {}
        """By turn and settings: calls that were recomputed without the calls before them."""

    def call_at(self, turn: int, by_turn: SettingsByTurn, deadline: float) -> ReplayedCall | None:
        """Return a turn's call as it was recorded. If it was not recorded, recompute it.

        `by_turn` has the settings of each call. Recomputing a call also recomputes all calls before
        it. Return None if `time.monotonic()` reaches the deadline before that is done.
        """
        if (cached := self._recorded_calls.get(turn)) is not None:
            return cached
        if (record := self.record_at(turn)) is None:
            (calls,) = self.replays.up_to([by_turn], turn, deadline)
            return calls[turn - 1] if len(calls) >= turn else None
        let_requests_run()  # callers ask for thousands of calls
        call = recorded_call(self, turn, record)
        if self.is_answered(turn):
            self._recorded_calls[turn] = call
        return call

    def call_alone(
        self, turn: int, by_turn: SettingsByTurn, deadline: float
    ) -> ReplayedCall | None:
        """Return a call as `call_at` does, but do not recompute earlier calls if possible.

        A call that is recomputed alone has no usage, because the tokens that it reads from the
        cache depend on the prompt of the call before.
        """
        # A policy that tracks tokens needs the uses of results by earlier calls.
        settings = by_turn.at(turn)
        depends_on_earlier_calls = policy_named(settings.policy).tracks_tokens
        if self.record_at(turn) is not None or depends_on_earlier_calls:
            return self.call_at(turn, by_turn, deadline)
        # Recompute this call alone, or return it from the cache.
        messages = self.messages_before(turn)
        assert messages is not None
        cached = self._single_calls.get((turn, settings))
        if cached is not None and cached.messages == messages:
            return cached
        let_requests_run()
        rendered = self.render(self.history_before(messages), settings)
        call = replayed_call(self, turn, rendered, NOTHING_USED, NOTHING_USED)
        if self.is_answered(turn):  # otherwise the call may change
            self._single_calls[turn, settings] = call
        return call

    def misses_at(self, call: ReplayedCall, by_turn: SettingsByTurn) -> tuple[Miss, ...]:
        """Return a call's misses, with the reasons why its prompt did not show the results.

        The reasons follow from the recorded calls if possible. Otherwise render the call again.
        """
        if call.missing_results and call.turn not in self._misses:
            record = self.record_at(call.turn)
            if record is not None and record.has_reasons:
                self._misses[call.turn] = self._recorded_misses(call, record)
            else:
                settings = record.settings if record else by_turn.at(call.turn)
                rendered = self.render(self.history_before(call.messages), settings)
                self._misses[call.turn] = misses_of(rendered, call.missing_results)
        return self._misses.get(call.turn, ())

    def _recorded_misses(self, call: ReplayedCall, record: CallRecord) -> tuple[Miss, ...]:
        """Return a recorded call's misses, with the reasons that follow from the recorded calls."""
        results = self.full_history.results
        histories = self.display_histories(
            [missing_result.result for missing_result in call.missing_results]
        )
        misses: list[Miss] = []
        for missing_result in call.missing_results:
            number = missing_result.result
            decision = recorded_decision(histories[number], call.turn, record.remaining_tokens)
            cost = results.tokens[number] + results.call_tokens[number]
            misses.append(Miss(missing_result, decision, cost))
        return tuple(misses)

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        calls = len(self._recorded_calls) + len(self._misses) + len(self._single_calls)
        return super().nbytes + self.replays.nbytes + CALL_BYTES * calls


def recorded_call(branch: BranchReplay, turn: int, record: CallRecord) -> ReplayedCall:
    """Return the call of a turn as it was recorded.

    Its usage is computed from our own counts, also if the provider reported usage. The tokens that
    its prompt shares with the prompt of the call before count as read from the cache.
    """
    messages = branch.messages_before(turn)
    assert messages is not None
    complete, partial = branch.shown_at(messages)
    output = branch.output_of(turn)
    # With full history, all messages of the call before would be read from the cache.
    previous_full = branch.total_before(turn - 1)
    return call_of_record(
        record,
        turn=turn,
        messages=messages,
        complete=complete,
        partial=partial,
        missing_results=branch.missing_results.get(messages, ()),
        usage=Usage.of_prompt(record.prompt, record.shared_tokens, output, record.embedded_tokens),
        full_usage=Usage.of_prompt(record.full, previous_full, output),
        uses=len(branch.used_at(turn)),
    )


class ReplayCache:
    """A thread-safe cache of replays.

    If it has more than `limit` bytes or `MAX_REPLAYS` replays, it drops the least recently used
    replays. The most recently used replay always stays.
    """

    def __init__(self, limit: int) -> None:
        """Start an empty cache. `limit` is in bytes."""
        self.limit = limit
        self._guard = threading.Lock()
        self._replays: OrderedDict[object, CachedReplay] = OrderedDict()

    def get(self, key: object, make: Callable[[], CachedReplay]) -> CachedReplay:
        """Return the replay with this key. If none is cached, add the one that `make` returns.

        Also drop the least recently used replays above the limits.
        """
        with self._guard:
            if key not in self._replays:
                self._replays[key] = make()
            replay = self._replays[key]
            self._replays.move_to_end(key)
            while len(self._replays) > 1 and (
                len(self._replays) > MAX_REPLAYS or self.nbytes > self.limit
            ):
                self._replays.popitem(last=False)
            return replay

    @property
    def nbytes(self) -> int:
        """A close estimate of the replays' memory in bytes. It is rough for replays in use."""
        return sum(replay.nbytes for replay in list(self._replays.values()))

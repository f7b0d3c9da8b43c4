"""What happened to one result from call to call, and why a recorded call showed it or not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.explain import ResultDecision
from contextrender_bridge.engine.policies import policy_named
from contextrender_bridge.engine.policies.by_density import IN_PART

COMPLETE, EXCERPT, DROPPED = "ShowsComplete", "ShowsExcerpt", "Drops"
FITS: Final = "the whole history fits"
NEVER_SHOWN: Final = "never in view so far"


class LifeChange(NamedTuple):
    """A call that showed or dropped a result, after so many `events`; `kind` is its edge's."""

    events: int
    turn: int
    kind: str


@dataclass(slots=True, frozen=True)
class ResultLife:
    """The calls of a branch that showed a result otherwise than the call before, in order."""

    changes: tuple[LifeChange, ...] = ()

    def decision(self, turn: int, remaining_tokens: int) -> ResultDecision:
        """Return how the call before `turn` showed the result, and why.

        `remaining_tokens` are those of its budget that it left free.
        """
        known = [change for change in self.changes if change.turn <= turn]
        if not known:
            return ResultDecision("omitted", None, NEVER_SHOWN, remaining_tokens)
        call, kind = known[-1].turn, known[-1].kind
        if kind == COMPLETE:
            return ResultDecision("complete", None, f"shown since call {call}")
        if kind == DROPPED:
            reason = f"dropped when the prompt was rebuilt at call {call}"
            return ResultDecision("omitted", None, reason, remaining_tokens)
        restored = any(change.kind == DROPPED for change in known)
        reason = f"a part was restored at call {call}" if restored else IN_PART
        return ResultDecision("excerpt", None, reason, remaining_tokens)


def is_told_by_lives(record: CallRecord) -> bool:
    """Return whether a call's results have reasons without a rendering.

    Its policy goes on from what the call before showed, and it was sent as rendered.
    """
    return policy_named(record.settings.policy).sizes_itself and not record.sent_full


def recorded_decisions(
    lives: Mapping[int, ResultLife], turn: int, record: CallRecord
) -> dict[int, ResultDecision]:
    """Return how a recorded call showed these results, and why, by the results' numbers."""
    if record.after == record.before:
        return dict.fromkeys(lives, ResultDecision("complete", None, FITS))
    return {result: life.decision(turn, record.remaining_tokens) for result, life in lives.items()}

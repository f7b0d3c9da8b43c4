"""The display history of a result: the calls that changed how it is shown, and the reasons."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.explain import ResultDecision
from contextrender_bridge.engine.policies.by_density import IN_PART

COMPLETE, EXCERPT, DROPPED = "ShowsComplete", "ShowsExcerpt", "Drops"
FITS: Final = "the whole history fits"
NEVER_SHOWN: Final = "never in view so far"


class DisplayChange(NamedTuple):
    """A change of how a result is shown.

    The change was made by the call number `turn`, before which the history had `events` events.
    `kind` is the type of the edge that stores the change.
    """

    events: int
    turn: int
    kind: str


@dataclass(slots=True, frozen=True)
class DisplayHistory:
    """All changes of how the calls of a branch showed one result, in order."""

    changes: tuple[DisplayChange, ...] = ()

    def decision(self, turn: int, remaining_tokens: int) -> ResultDecision:
        """Return how the call number `turn` showed the result, and why.

        `remaining_tokens` is the number of tokens of its budget that the call did not use. Every
        decision has it, except the decision to show the complete result.
        """
        # The last change at or before this call says how the call shows the result.
        changes = [change for change in self.changes if change.turn <= turn]
        if not changes:
            return ResultDecision("omitted", None, NEVER_SHOWN, remaining_tokens)
        call, kind = changes[-1].turn, changes[-1].kind
        if kind == COMPLETE:
            return ResultDecision("complete", None, f"shown since call {call}")
        if kind == DROPPED:
            reason = f"dropped when the prompt was rebuilt at call {call}"
            return ResultDecision("omitted", None, reason, remaining_tokens)
        # A part of the result is shown: restored after the result was dropped, or an excerpt.
        was_dropped = any(change.kind == DROPPED for change in changes)
        reason = f"a part was restored at call {call}" if was_dropped else IN_PART
        return ResultDecision("excerpt", None, reason, remaining_tokens)


def recorded_decisions(
    histories: Mapping[int, DisplayHistory], turn: int, record: CallRecord
) -> dict[int, ResultDecision]:
    """Return how a recorded call showed these results, and why, by the results' numbers."""
    if record.tokens_after == record.tokens_before:
        return dict.fromkeys(histories, ResultDecision("complete", None, FITS))
    return {
        result: display_history.decision(turn, record.remaining_tokens)
        for result, display_history in histories.items()
    }

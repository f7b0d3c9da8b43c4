"""The display history of a result: the calls that changed how it is shown, and the reasons."""

from collections.abc import Mapping, Sequence
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


def recorded_decision(
    display_history: Sequence[DisplayChange], turn: int, remaining_tokens: int
) -> ResultDecision:
    """Return how the call number `turn` showed a result, and why.

    `display_history` has all changes of how the calls of the branch showed the result, in order.
    `remaining_tokens` is the number of tokens of its budget that the call did not use. Every
    decision has it, except the decision to show the complete result.
    """
    # The last change at or before this call says how the call shows the result.
    changes = [change for change in display_history if change.turn <= turn]
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
    histories: Mapping[int, Sequence[DisplayChange]], turn: int, record: CallRecord
) -> dict[int, ResultDecision]:
    """Return how a recorded call showed these results, and why, by the results' numbers.

    `histories` has the display history of each result.
    """
    if record.tokens_after == record.tokens_before:
        return dict.fromkeys(histories, ResultDecision("complete", None, FITS))
    return {
        result: recorded_decision(display_history, turn, record.remaining_tokens)
        for result, display_history in histories.items()
    }

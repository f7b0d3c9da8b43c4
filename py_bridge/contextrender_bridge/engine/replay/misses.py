"""Why a rendering did not show the results that its answer needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contextrender_bridge.engine.call.explain import Verdicts
from contextrender_bridge.engine.call.missing_results import (
    MissingResult,
    missing_results,
    prompt_texts,
)
from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.replay.branch_replay import BranchReplay

OTHERWISE_TODAY: Final = "so it was when the call was made; today it would be shown"


@dataclass(slots=True, frozen=True)
class Miss:
    """A result that a call lacked, and why.

    `cost` is what the result would have taken with its call; `shown`, `reason`, `left` and `after`
    are its verdict's.
    """

    lack: MissingResult
    shown: str
    cost: int
    reason: str
    left: int | None
    after: int | None


def missing_in(past: BranchReplay, rendered: RenderedCall, turn: int) -> tuple[MissingResult, ...]:
    """Return what a rendering of the call before `turn` would have lacked."""
    answer = past.answer_to(turn)
    if answer is None:
        return ()
    return missing_results(
        past.whole,
        answer,
        frozenset(rendered.selection.complete),
        lambda: prompt_texts(
            rendered.items, (past.whole.messages[item.message] or {} for item in rendered.items)
        ),
        past.text_of,
    )


def misses_of(rendered: RenderedCall, lacks: Sequence[MissingResult]) -> tuple[Miss, ...]:
    """Return why a call lacked that, by its rendering.

    A result that today's rules would have shown complete was left out when the call was made.
    """
    verdicts = Verdicts(rendered)
    return tuple(
        Miss(
            lack,
            "omitted" if changed else verdict.shown,
            int(rendered.view.costs[lack.result]),
            OTHERWISE_TODAY if changed else verdict.reason,
            verdict.left,
            verdict.after,
        )
        for lack in lacks
        for verdict in [verdicts.of(lack.result)]
        for changed in [verdict.shown == "complete"]
    )

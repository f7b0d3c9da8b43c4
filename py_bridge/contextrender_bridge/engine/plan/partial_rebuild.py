"""Late re-selection: the cached beginning of the last prompt stays while it is worth its room.

(docs/policies.md, contextrender_cache_aware)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from contextrender_bridge.engine.plan.append_step import first_new, shown_before
from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.density import Density, worth_of
from contextrender_bridge.engine.plan.fill_selection import select_in_parts, small_newcomer
from contextrender_bridge.engine.plan.ranking import Floats
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder

LOSS: Final = 0.1
"""The share of worth that keeping the prompt's beginning may cost."""

EXCERPT_WORTH: Final = 0.75
"""What an excerpt is worth beside the complete result."""

EVERY_CUT: Final = 4
"""The latest cuts are tried one by one; then every second, fourth, eighth and so on."""

COMPLETE_SHARE: Final = 0.3
"""Of what is selected to be repeated: a few lines of many results beat a few whole ones."""

NO_CUT: Final = -1

Cut = tuple[int, list[int]]
"""A position in the last prompt, and the results that stay with all up to it."""


@dataclass(slots=True, frozen=True)
class PartialRebuild:
    """A choice, and the position of the last message of the prompt's beginning that it keeps."""

    choice: SelectionBuilder
    cut: int = NO_CUT


def rebuild_partially(
    moment: CallContext, last: Selection, anew: SelectionBuilder, density: Density, share: float
) -> PartialRebuild | None:
    """The last prompt up to the latest cut where that is nearly as good as `anew`, if there is one.

    Of what stands before the cut nothing changes; what is behind it is selected anew. Each cut
    tried is a selection, so of n there are at most `EVERY_CUT` + log2(n) (`tried`).
    """
    worth = worth_of(moment)
    least = (1 - LOSS) * _worth(anew, worth)
    for cut, kept in tried(_cuts(moment, last, share * max(0, anew.free))):
        choice = SelectionBuilder.repeated(moment, last, kept)
        _block(choice, cut, first_new(moment, last))
        select_few(choice, density, share)
        if _worth(choice, worth) >= least and _wanted_as_well(choice, anew):
            return PartialRebuild(choice, cut)
    return None


def select_few(choice: SelectionBuilder, density: Density, share: float) -> None:
    """A selection that leaves room to append to."""
    most = small_newcomer(choice.moment.view)
    select_in_parts(choice, density, share=share, most=most, complete_share=COMPLETE_SHARE)


def tried(cuts: Iterable[Cut]) -> Iterator[Cut]:
    """The first `EVERY_CUT` of these, then every second, fourth, eighth and so on."""
    due, step = 0, 1
    for number, cut in enumerate(cuts):
        if number == due:
            yield cut
            step *= 1 if number < EVERY_CUT - 1 else 2
            due += step


def _cuts(moment: CallContext, last: Selection, room: float) -> Iterator[Cut]:
    """Where the last prompt may be cut, from the end: behind an assistant message and its results.

    With what stays of it, which is within `room`.
    """
    results, newest = moment.view.history.results, {*moment.newest}
    shown = [r for r in shown_before(moment, last) if r not in newest]
    shown.sort(key=lambda r: (results.call_message[r], r))
    costs = [_cost(moment, last, result) for result in shown]
    used = sum(costs)
    while shown:
        cut = results.call_message[shown[-1]]
        if used <= room:
            yield cut, list(shown)
        while shown and results.call_message[shown[-1]] == cut:
            shown.pop()
            used -= costs.pop()


def _cost(moment: CallContext, last: Selection, result: int) -> int:
    call = last.arguments[result].tokens if result in last.arguments else int(moment.calls[result])
    size = last.excerpts[result].tokens if result in last.excerpts else int(moment.sizes[result])
    return call + size


def _block(choice: SelectionBuilder, cut: int, new: int) -> None:
    """What was out before the cut stays out."""
    called = np.array(choice.moment.view.history.results.call_message[:new], np.int64)
    choice.available[:new] &= called > cut


def _worth(choice: SelectionBuilder, worth: Floats) -> float:
    """What a choice is worth: a result in part nearly as much as one complete."""
    complete = worth[choice.complete].sum()
    return float(complete + EXCERPT_WORTH * worth[[*choice.kept, *choice.segments]].sum())


def _wanted_as_well(choice: SelectionBuilder, anew: SelectionBuilder) -> bool:
    """Whether the newest results and the pinned ones are shown no less well than in `anew`."""
    complete = {*choice.complete}
    shown = complete | {*choice.kept}
    return all(
        (r in complete or r not in anew.complete) and (r in shown or r not in anew.kept)
        for r in (*choice.moment.newest, *choice.moment.pinned)
    )

"""The newest turn's results, shown beyond an automatic budget in one call (docs/policies.md).

An agent that reads a file needs the file, not an excerpt of it: it would read it again.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.excerpt_text import excerpt_of
from contextrender_bridge.engine.plan.selection import Selection, Substitute

NEWEST_TOKENS: Final = 8_000
"""The most tokens of the newest turn's results that are shown beyond the budget."""

RANGE_TOKENS: Final = 2000
"""The tokens of the beginning that is shown of a result above `NEWEST_TOKENS`."""


def show_newest(moment: CallContext, selection: Selection) -> Selection:
    """Return the selection with more of the newest turn's results, in this call alone.

    Excerpts become complete results, the smallest first, up to `NEWEST_TOKENS` together. Each of
    the others shows its beginning, in one piece of `RANGE_TOKENS`. All stays within the most
    tokens that an automatic budget may have.
    """
    newest = [r for r in moment.newest if r in selection.excerpts]
    if not newest:
        return selection
    newest.sort(key=lambda result: (moment.sizes[result], result))
    complete_tokens = sum(int(moment.sizes[r]) for r in moment.newest if r in selection.complete)
    room = min(NEWEST_TOKENS - complete_tokens, _free_tokens(moment, selection))
    ends = np.cumsum(moment.sizes[newest])
    count = int(np.searchsorted(ends, room, side="right"))
    complete, larger = newest[:count], newest[count:]
    room -= int(ends[count - 1]) if count else 0
    beginnings: dict[int, Substitute] = {}
    for result in larger:
        beginning = _beginning(moment, result)
        more = beginning.tokens - selection.excerpts[result].tokens
        if 0 < more <= room:
            beginnings[result] = beginning
            room -= more
    changed = {*complete, *beginnings}
    return replace(
        selection,
        complete=tuple(sorted((*selection.complete, *complete))),
        excerpts={r: excerpt for r, excerpt in selection.excerpts.items() if r not in changed}
        | beginnings,
        next_excerpts={result: selection.excerpts[result] for result in changed},
    )


def _free_tokens(moment: CallContext, selection: Selection) -> int:
    """Return the tokens between the prompt and the largest automatic budget."""
    prompt = selection.tokens_in(moment.view.history) - moment.outside_tokens
    return moment.view.budget - prompt


def _beginning(moment: CallContext, result: int) -> Substitute:
    """Return an excerpt of the first `RANGE_TOKENS` of a result, in whole segments."""
    first, stop = moment.tracking.first_segment.values[result : result + 2].tolist()
    ends = np.cumsum(moment.tracking.segment_tokens.values[first:stop])
    count = int(np.searchsorted(ends, RANGE_TOKENS, side="right"))
    return excerpt_of(moment, result, range(first, first + max(1, count)))

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


def show_newest(context: CallContext, selection: Selection) -> Selection:
    """Return the selection with more of the newest turn's results, in this call alone.

    Excerpts become complete results, the smallest first, up to `NEWEST_TOKENS` together. Each of
    the others shows its beginning, in one piece of `RANGE_TOKENS`. All stays within the most
    tokens that an automatic budget may have.
    """
    newest = [r for r in context.newest if r in selection.excerpts]
    if not newest:
        return selection
    newest.sort(key=lambda result: (context.sizes[result], result))
    complete_tokens = sum(int(context.sizes[r]) for r in context.newest if r in selection.complete)
    limit = min(NEWEST_TOKENS - complete_tokens, _free_tokens(context, selection))
    ends = np.cumsum(context.sizes[newest])
    count = int(np.searchsorted(ends, limit, side="right"))
    complete, larger = newest[:count], newest[count:]
    limit -= int(ends[count - 1]) if count else 0
    beginnings: dict[int, Substitute] = {}
    for result in larger:
        beginning = _beginning(context, result)
        extra_tokens = beginning.tokens - selection.excerpts[result].tokens
        if 0 < extra_tokens <= limit:
            beginnings[result] = beginning
            limit -= extra_tokens
    changed = {*complete, *beginnings}
    return replace(
        selection,
        complete=tuple(sorted((*selection.complete, *complete))),
        excerpts={r: excerpt for r, excerpt in selection.excerpts.items() if r not in changed}
        | beginnings,
        next_excerpts={result: selection.excerpts[result] for result in changed},
    )


def _free_tokens(context: CallContext, selection: Selection) -> int:
    """Return the tokens between the prompt and the largest automatic budget."""
    prompt = selection.tokens_in(context.view.history) - context.unbudgeted_tokens
    return context.view.budget - prompt


def _beginning(context: CallContext, result: int) -> Substitute:
    """Return an excerpt of the first `RANGE_TOKENS` of a result, in whole segments."""
    first, stop = context.tracking.first_segment.values[result : result + 2].tolist()
    ends = np.cumsum(context.tracking.segment_tokens.values[first:stop])
    count = int(np.searchsorted(ends, RANGE_TOKENS, side="right"))
    return excerpt_of(context, result, range(first, first + max(1, count)))

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

BEGINNING_TOKENS: Final = 2_000
"""The tokens of the beginning that is shown of a result that does not fit `NEWEST_TOKENS`."""


def show_newest(context: CallContext, selection: Selection) -> Selection:
    """Return the selection with more of the newest turn's results, in this call alone.

    Excerpts become complete results, the smallest first, up to `NEWEST_TOKENS` together. Each of
    the others shows its beginning, in one piece of `BEGINNING_TOKENS`. All stays within the most
    tokens that an automatic budget may have.
    """
    excerpts = selection.excerpts
    in_part = [result for result in context.newest if result in excerpts]
    if not in_part:
        return selection
    in_part.sort(key=lambda result: (context.sizes[result], result))
    complete_tokens = sum(int(context.sizes[r]) for r in context.newest if r in selection.complete)
    limit = min(NEWEST_TOKENS - complete_tokens, _free_tokens(context, selection))
    complete: list[int] = []
    for result in in_part:
        size = int(context.sizes[result])
        if size > limit:
            break
        complete.append(result)
        limit -= size
    beginnings: dict[int, Substitute] = {}
    for result in in_part[len(complete) :]:
        beginning = _beginning(context, result)
        extra_tokens = beginning.tokens - excerpts[result].tokens
        if 0 < extra_tokens <= limit:
            beginnings[result] = beginning
            limit -= extra_tokens
    changed = {*complete, *beginnings}
    unchanged = {result: excerpts[result] for result in excerpts if result not in changed}
    return replace(
        selection,
        complete=tuple(sorted((*selection.complete, *complete))),
        excerpts=unchanged | beginnings,
        next_excerpts={result: excerpts[result] for result in changed},
    )


def _free_tokens(context: CallContext, selection: Selection) -> int:
    """Return the tokens between the prompt and the largest automatic budget."""
    prompt = selection.tokens_in(context.view.history) - context.unbudgeted_tokens
    return context.view.budget - prompt


def _beginning(context: CallContext, result: int) -> Substitute:
    """Return an excerpt of a result's first segments, at least one, of `BEGINNING_TOKENS`."""
    segments = context.tracking.segments_of(result)
    summed_tokens = np.cumsum(
        context.tracking.segment_tokens.values[segments.start : segments.stop]
    )
    fitting_count = int(np.searchsorted(summed_tokens, BEGINNING_TOKENS, side="right"))
    return excerpt_of(context, result, segments[: max(1, fitting_count)])

"""The newest turn's results, which one call shows beyond the automatic budget (docs/policies.md).

An agent that reads a file needs the whole file. If it gets an excerpt, it reads the file again.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.excerpt_text import excerpt_of, segments_in
from contextrender_bridge.engine.plan.selection import Selection, Substitute

NEWEST_TOKENS: Final = 8_000
"""The most tokens of the newest turn's results that are shown beyond the budget."""

BEGINNING_TOKENS: Final = 2_000
"""If a result does not fit `NEWEST_TOKENS`, its excerpt begins with at most these tokens of it."""


def show_newest(context: CallContext, selection: Selection) -> Selection:
    """Return the selection with more of the newest turn's results, for this call only.

    Replace excerpts by complete results, the smallest first, while all complete results of the turn
    fit `NEWEST_TOKENS`. Add the result's beginning to each other excerpt, if it fits. The prompt
    stays within the largest automatic budget. The next call will show the excerpts again, so
    `next_excerpts` has them.
    """
    excerpts = selection.excerpts
    in_part = [result for result in context.newest if result in excerpts]
    if not in_part:
        return selection
    in_part.sort(key=lambda result: (context.sizes[result], result))
    # Results of the turn that are complete already use a part of the limit.
    complete_tokens = sum(int(context.sizes[r]) for r in context.newest if r in selection.complete)
    limit = min(NEWEST_TOKENS - complete_tokens, _tokens_below_largest_budget(context, selection))

    # Show results complete, the smallest first. `NEWEST_TOKENS` is a limit for complete results, so
    # the tokens of the replaced excerpts are not subtracted from their sizes. Against the largest
    # budget, this counts a little too much, so the prompt still fits.
    complete: list[int] = []
    for result in in_part:
        size = int(context.sizes[result])
        if size > limit:
            break
        complete.append(result)
        limit -= size

    # Show the beginnings of the others, too. An excerpt that is longer than the beginning stays as
    # it is, because the provider's cache can be read up to it again.
    with_beginning: dict[int, Substitute] = {}
    for result in in_part[len(complete) :]:
        excerpt = excerpts[result]
        beginning = _beginning(context, result)
        if excerpt_of(context, result, beginning).tokens <= excerpt.tokens:
            continue
        longer = excerpt_of(context, result, _segments_of(context, result, excerpt) | beginning)
        if (extra_tokens := longer.tokens - excerpt.tokens) <= limit:
            with_beginning[result] = longer
            limit -= extra_tokens

    # The next call shows the excerpts again.
    changed = {*complete, *with_beginning}
    unchanged = {result: excerpts[result] for result in excerpts if result not in changed}
    return replace(
        selection,
        complete=tuple(sorted((*selection.complete, *complete))),
        excerpts=unchanged | with_beginning,
        next_excerpts={result: excerpts[result] for result in changed},
    )


def _tokens_below_largest_budget(context: CallContext, selection: Selection) -> int:
    """Return how many tokens the prompt is below the largest automatic budget, `context.budget`."""
    prompt = selection.tokens_in(context.history) - context.unbudgeted_tokens
    return context.budget - prompt


def _beginning(context: CallContext, result: int) -> frozenset[int]:
    """Return a result's first segments, which have at most `BEGINNING_TOKENS`, but at least one."""
    segments = context.tracking.segments_of(result)
    summed_tokens = np.cumsum(
        context.tracking.segment_tokens.values[segments.start : segments.stop]
    )
    fitting_count = int(np.searchsorted(summed_tokens, BEGINNING_TOKENS, side="right"))
    return frozenset(segments[: max(1, fitting_count)])


def _segments_of(context: CallContext, result: int, excerpt: Substitute) -> frozenset[int]:
    """Return the segments of a result that its excerpt shows."""
    spans = zip(excerpt.ranges[::2], excerpt.ranges[1::2], strict=True)
    return segments_in(context, result, [(start, start + length) for start, length in spans])

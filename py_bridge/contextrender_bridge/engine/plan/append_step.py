"""The step that appends to the last prompt: the new results, and restored parts of older ones.

If an older result is needed again, parts of it are shown after a new result. At their own position
they would change the prompt's beginning, which the provider has cached (docs/policies.md).
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Final

import numpy as np

from contextrender_bridge.engine.history.file_versions import repeated_ranges, replaced_ranges
from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.excerpt_text import parts_of, restored_mark, segments_in
from contextrender_bridge.engine.plan.excerpts import ExcerptBuilder
from contextrender_bridge.engine.plan.fill_selection import MIN_EXCERPT, max_new_excerpt
from contextrender_bridge.engine.plan.scores import scores_of
from contextrender_bridge.engine.plan.selection import RestoredPart, RestoredText, Selection
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder

MAX_SMALL_RESULT: Final = 2_000
"""A new result with more tokens is complete only if much of the budget is left."""

MAX_LARGE_SHARE: Final = 0.2
"""The largest share of the budget that such a complete result may have."""

MIN_LARGE_SHARE: Final = 0.05
"""The share of the budget for results that such a result may have even if little of it is left."""


def append_step(context: CallContext, previous: Selection) -> SelectionBuilder | None:
    """Return the previous selection plus the new results, or None if they exceed the budget.

    A new result that is too large is shown as an excerpt. Parts of older results may be restored.
    """
    builder = SelectionBuilder.from_previous(context, previous, results_before(context, previous))
    later_results = range(first_new(context, previous), context.result_count)
    # A result without a call is not available, because no prompt may show it.
    new_results = [result for result in later_results if builder.available[result]]
    large_results = [result for result in new_results if _is_large(builder, result)]
    for result in new_results:
        if result not in large_results:
            builder.select_complete(result)
    if builder.remaining_tokens < 0:
        return None
    if large_results and not _add_excerpts(builder, large_results):
        return None
    restore_used(builder, [result for result in new_results if result in builder.complete])
    return builder


def results_before(context: CallContext, previous: Selection) -> list[int]:
    """Return the results that the previous prompt showed and that have a call.

    If no prompt up to the previous one omitted anything (`is_over` is false), its selection lists
    no results, because its prompt shows all of them.
    """
    if previous.is_over:
        shown_results: Sequence[int] = (*previous.complete, *previous.excerpts)
    else:
        shown_results = range(first_new(context, previous))
    return [result for result in shown_results if context.has_call[result]]


def first_new(context: CallContext, previous: Selection) -> int:
    """Return the number of the first result that is newer than the previous prompt."""
    return bisect_left(context.history.results.message, max(previous.messages, 0))


def _is_large(builder: SelectionBuilder, result: int) -> bool:
    """Return whether a new result is too large to be shown complete (docs/policies.md)."""
    size = builder.context.sizes[result]
    if size > builder.context.parameters.newest_share * builder.budget_for_results:
        return True
    # A needed result is complete, or else the agent would probably call the tool once more.
    if size <= MAX_SMALL_RESULT or _is_needed(builder.context, result):
        return False
    exceeds_budget_share = size > MAX_LARGE_SHARE * builder.context.budget
    exceeds_half_of_rest = size > builder.remaining_tokens / 2
    exceeds_min_share = size > MIN_LARGE_SHARE * builder.budget_for_results
    return bool(exceeds_budget_share or (exceeds_half_of_rest and exceeds_min_share))


def _is_needed(context: CallContext, result: int) -> bool:
    """Return whether a result is pinned, or the agent called for it a second time.

    An earlier result of the same call counts if it has more than half of the tokens of this result,
    because a much smaller one may have been an error.
    """
    is_repeated = context.tracking.previous_sizes.values[result] > context.sizes[result] / 2
    return result in context.pinned or bool(is_repeated)


def _add_excerpts(builder: SelectionBuilder, large_results: list[int]) -> bool:
    """Add excerpts of large results. Return False if too few tokens are left for them.

    The calls of the results are complete. Half of the tokens that remain after the calls are
    divided evenly among the excerpts. A result without a fitting excerpt is selected complete.
    """
    call_tokens = sum(builder.call_tokens[result] for result in large_results)
    share = (builder.remaining_tokens - call_tokens) / 2 / len(large_results)
    if share < MIN_EXCERPT:
        return False
    size = min(share, max_new_excerpt(builder.context))
    excerpts = ExcerptBuilder(builder, scores_of(builder.context))
    for result in large_results:
        excerpts.add_excerpt(result, size + builder.call_tokens[result])
        is_unselected = builder.available[result]
        if is_unselected:
            # No segment of the result fits the excerpt.
            if builder.costs[result] > builder.remaining_tokens:
                return False
            builder.select_complete(result)
    return True


RESTORED_SHARE: Final = 0.04
"""The largest share of the budget that one call restores."""

MARK_TOKENS: Final = 26
"""The tokens reserved for the first line of a restored part (`restored_mark`)."""

MIN_RESTORED: Final = 60
"""The fewest tokens with which results are restored."""

EDIT_TOKENS: Final = 12
"""The additional tokens of the mark if the file was edited since."""

MOST_VERSIONS: Final = 3
"""The number of newer versions of a file that are tried before the version that was used."""

RECENT_TURNS: Final = 5
"""The number of last turns of which one must have used a result, for the result to be restored."""


def restore_used(builder: SelectionBuilder, new_results: Sequence[int]) -> None:
    """Show parts of recently used results again, if the prompt does not show them complete.

    The parts are appended to the last of the `new_results`, which are shown complete. If there is
    no new result, nothing is restored.
    """
    token_limit = min(RESTORED_SHARE * builder.context.budget, builder.remaining_tokens)
    if not new_results or token_limit < MIN_RESTORED:
        return
    restorable_results = _restorable_results(builder)
    if not restorable_results:
        return
    parts = _restored_parts(builder, restorable_results, token_limit)
    if parts:
        builder.restore(max(new_results), RestoredText(tuple(parts)))


def _restored_parts(
    builder: SelectionBuilder, results: Sequence[int], token_limit: float
) -> list[RestoredPart]:
    """Return parts of the results, with at most `token_limit` tokens together.

    The results with the highest result scores are tried first. If a result's file was read again
    later, the newer results of the file are tried before the result itself.
    """
    scores = scores_of(builder.context)
    excerpts = ExcerptBuilder(builder, scores)
    by_score = sorted(results, key=lambda result: (-scores.result_scores[result], result))
    candidates = chain.from_iterable(map(partial(_versions_to_try, builder), by_score))
    parts: list[RestoredPart] = []
    for result in dict.fromkeys(candidates):  # each once, in this order
        part = _restored_part(builder.context, excerpts, result, token_limit)
        if part is not None and part.tokens <= token_limit:
            parts.append(part)
            token_limit -= part.tokens
    return parts


def _restored_part(
    context: CallContext, excerpts: ExcerptBuilder, result: int, token_limit: float
) -> RestoredPart | None:
    """Return a part of a result: a first line (mark), and the segments with the most new values.

    Return None if no segment fits. The mark's tokens are estimated, so the part may have slightly
    more than `token_limit` tokens.
    """
    outdated, edited_at = segments_not_to_restore(context, result)
    limit = token_limit - MARK_TOKENS - (EDIT_TOKENS if edited_at else 0)
    segments = excerpts.select_unseen_segments(result, limit, outdated)
    if not segments:
        return None
    is_complete = len(segments) == len(context.tracking.segments_of(result))
    position = context.history.results.message[result]
    mark = restored_mark(position, is_complete=is_complete, edited_at=edited_at)
    body, ranges = parts_of(context, result, segments)
    text = f"\n\n{mark}{body}"
    return RestoredPart(result, text, context.counter.text(text), ranges)


def _versions_to_try(builder: SelectionBuilder, result: int) -> list[int]:
    """Return the results with the same file of which parts may be shown, the preferred one first.

    The newest later results of the file come first, because their text is up to date. Results that
    the prompt shows complete are left out. The result itself comes last.
    """
    context, complete = builder.context, {*builder.complete}
    newer = context.history.files.newer_results(result, context.result_count)
    restorable = [later for later in newer if context.has_call[later] and later not in complete]
    return [*restorable[:MOST_VERSIONS], result]


def segments_not_to_restore(context: CallContext, result: int) -> tuple[frozenset[int], int]:
    """Return the outdated segments of a result, and the turn in which its file was first edited.

    A segment is outdated if one of its lines was edited after the result, or if a newer result of
    the same file has the line, too. The turn is 0 if there was no edit after the result, or if the
    result's file is not known.
    """
    results, files = context.history.results, context.history.files
    edits = files.edits_after(result, results.call_message[result], context.message_count)
    newer = files.newer_results(result, context.result_count)[:MOST_VERSIONS]
    if not edits and not newer:
        return frozenset(), 0
    is_file = files.has_path(result)
    positions = [results.message[version] for version in (result, *newer)]
    text, *newer_texts = context.texts_of(positions)
    ranges = replaced_ranges(text, edits, is_file=is_file) + repeated_ranges(text, newer_texts)
    edited_at = context.history.turns[edits[0].position] if edits and is_file else 0
    return segments_in(context, result, ranges), edited_at


def _restorable_results(builder: SelectionBuilder) -> list[int]:
    """Return the results that are not complete in the prompt and were used recently."""
    context = builder.context
    tracking = context.tracking
    is_recent = context.turn - tracking.last_use_turns.values <= RECENT_TURNS
    is_restorable = is_recent & (tracking.use_counts.values > 0) & context.has_call
    is_restorable[builder.complete] = False
    return [int(result) for result in np.flatnonzero(is_restorable)]

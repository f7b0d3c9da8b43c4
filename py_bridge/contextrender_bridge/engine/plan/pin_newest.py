"""The newest and the pinned results in the selection of any policy (docs/policies.md)."""

from dataclasses import replace

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.call_text import NEWEST_SHARE, select_text
from contextrender_bridge.engine.plan.fill_selection import max_excerpt, take_newest, take_pinned
from contextrender_bridge.engine.plan.scores import scores_of
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder


def with_required_results(
    context: CallContext, selection: Selection, *, force_newest: bool
) -> Selection:
    """Return a selection that also has the pinned results and, with `force_newest`, the newest.

    Select the newest results first, then the pinned ones. Then select the results of `selection`
    in its order, and leave out the results that do not fit any more.
    """
    builder = SelectionBuilder(context, selection.text)
    leaves_too_little = builder.budget_for_results < NEWEST_SHARE * context.budget
    if leaves_too_little:  # the text leaves too little for the newest results: select less text
        builder = SelectionBuilder(context, select_text(context))
    # Select the required results first.
    newest_limit = context.parameters.newest_share * max(0, builder.budget_for_results)
    scores = scores_of(context)
    if force_newest:
        take_newest(builder, newest_limit, scores, max_excerpt(context))
    take_pinned(builder, scores)
    required_results = [*builder.complete, *builder.fixed_excerpts]  # all that is selected so far
    # Fill the rest of the budget with the results of the given selection.
    _take_selected(builder, selection)
    excerpts = builder.finish_excerpts()  # those of required and of other results
    other_results = {*builder.complete, *excerpts}.difference(required_results)
    return replace(
        selection,
        text=builder.text,
        complete=tuple(builder.complete),
        excerpts=excerpts,
        arguments=builder.arguments,
        limits={},  # no selected result waits for its substitute (`_take_selected`)
        order=(*required_results, *(r for r in selection.shown_order if r in other_results)),
    )


def _take_selected(builder: SelectionBuilder, selection: Selection) -> None:
    """Select the results of a selection in its order, as it shows them, if they fit.

    A result whose substitute is not written yet is neither complete nor an excerpt, so it is not
    selected.
    """
    for result in selection.shown_order:
        if not builder.available[result]:
            continue
        excerpt = selection.excerpts.get(result)
        if excerpt and builder.call_tokens[result] + excerpt.tokens <= builder.remaining_tokens:
            builder.select_excerpt(result, excerpt)
        elif result in selection.complete and builder.costs[result] <= builder.remaining_tokens:
            builder.select_complete(result)

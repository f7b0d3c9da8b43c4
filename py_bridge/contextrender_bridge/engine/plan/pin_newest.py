"""Any policy's plan with the newest and the pinned results in view (docs/policies.md)."""

from dataclasses import replace

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.call_text import NEWEST_SHARE, select_text
from contextrender_bridge.engine.plan.density import density_of
from contextrender_bridge.engine.plan.fill_selection import small_excerpt, take_newest, take_pinned
from contextrender_bridge.engine.plan.selection import Selection
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder


def with_newest(moment: CallContext, plan: Selection, *, force_newest: bool) -> Selection:
    """Return a selection that also has the pinned results and, with `force_newest`, the newest.

    The newest results are selected first, then the pinned ones, then those of `plan` in its order,
    as long as they fit.
    """
    view = moment.view
    choice = SelectionBuilder(moment, plan.text)
    if choice.free < NEWEST_SHARE * view.budget:
        choice = SelectionBuilder(moment, select_text(moment))
    share = view.parameters.newest_share * max(0, choice.free)
    if force_newest:
        take_newest(choice, share, density_of(moment), small_excerpt(view))
    _keep_summary(choice, plan)
    take_pinned(choice, density_of(moment))
    first = [*choice.complete, *choice.kept]
    _take_planned(choice, plan)
    texts = choice.excerpts()
    return replace(
        plan,
        text=choice.text,
        complete=tuple(choice.complete),
        excerpts=texts,
        arguments=choice.arguments,
        limits={},
        order=(
            *first,
            *(r for r in plan.shown_order if r in {*choice.complete, *texts} - {*first}),
        ),
    )


def _keep_summary(choice: SelectionBuilder, plan: Selection) -> None:
    """What stands for the beginning of the history stays before anything that is pinned."""
    for result, made in plan.excerpts.items():
        fits = choice.calls[result] + made.tokens <= choice.left_over
        if made.kind == "summary" and choice.available[result] and fits:
            choice.keep(result, made)


def _take_planned(choice: SelectionBuilder, plan: Selection) -> None:
    """What the plan shows, complete or in texts of its own, where there is room."""
    for result in plan.shown_order:
        made = plan.excerpts.get(result)
        if not choice.available[result]:
            continue
        if made is not None and choice.calls[result] + made.tokens <= choice.left_over:
            choice.keep(result, made)
        elif result in plan.complete and choice.costs[result] <= choice.left_over:
            choice.take(result)

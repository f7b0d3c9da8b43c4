"""Any policy's plan with the newest and the pinned results in view (docs/policies.md)."""

from dataclasses import replace

from contextrender_bridge.engine.history.frozen import Substitute, TextSelection
from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.density import density_of
from contextrender_bridge.engine.plan.fill_selection import small_excerpt, take_newest, take_pinned
from contextrender_bridge.engine.plan.plan import Plan, RetainedText
from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.selection import (
    NEWEST_SHARE,
    SelectionBuilder,
    retained_with,
    text_at,
)
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD


def with_newest(moment: CallContext, plan: Plan, *, hidden: bool) -> Plan:
    """A plan that has room for these results.

    The newest come first, where they are `hidden`, then those pinned, then what the plan shows, in
    its order, as far as it still fits.
    """
    view = moment.view
    retained, text = plan.retained, _text_of(view, plan.retained)
    choice = SelectionBuilder(moment, text)
    if choice.free < NEWEST_SHARE * view.budget:
        text = text_at(moment)
        choice, retained = SelectionBuilder(moment, text), retained_with(moment, text)
    share = view.parameters.newest_share * max(0, choice.free)
    if hidden:
        take_newest(choice, share, density_of(moment), small_excerpt(view))
    _keep_summary(choice, plan)
    take_pinned(choice, density_of(moment))
    first = [*choice.complete, *choice.kept]
    _take_planned(choice, plan)
    texts = choice.excerpts()
    return replace(
        plan,
        retained=retained,
        taken=choice.complete,
        replaced={result: made.tokens for result, made in texts.items()},
        order=[
            *first,
            *(r for r in plan.shown_order if r in {*choice.complete, *texts} - {*first}),
        ],
        texts=texts,
        calls=choice.cut_calls,
    )


def _keep_summary(choice: SelectionBuilder, plan: Plan) -> None:
    """What stands for the beginning of the history stays before anything that is pinned."""
    for result, made in plan.texts.items():
        fits = choice.calls[result] + made.tokens <= choice.left_over
        if made.kind == "summary" and choice.available[result] and fits:
            choice.keep(result, made)


def _take_planned(choice: SelectionBuilder, plan: Plan) -> None:
    """What the plan shows, complete or in texts of its own, where there is room."""
    for result in plan.shown_order:
        made = plan.texts.get(result)
        if not choice.available[result]:
            continue
        if made is not None and choice.calls[result] + made.tokens <= choice.left_over:
            choice.keep(result, made)
        elif result in plan.taken and choice.costs[result] <= choice.left_over:
            choice.take(result)


def _text_of(view: PolicyInput, retained: RetainedText) -> TextSelection:
    """A plan's text as policies of our own have it."""

    def cut(text: str) -> Substitute:
        return Substitute(text, view.counter.text(text) + MESSAGE_OVERHEAD if text else 0)

    left = tuple(sorted(retained.left_messages))
    return TextSelection(left, {p: cut(text) for p, text in retained.excerpts.items()})

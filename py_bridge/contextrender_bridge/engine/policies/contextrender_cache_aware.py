"""A policy that repeats the last prompt and appends to it (docs/policies.md).

Some providers cache a prompt only up to cache breakpoints. They can read it from the cache up to a
position that was a breakpoint of an earlier prompt. `breakpoints_of` chooses these positions.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from contextrender_bridge.engine.plan.append_step import append_step
from contextrender_bridge.engine.plan.auto_budget import adjust_budget
from contextrender_bridge.engine.plan.call_context import (
    CallContext,
    select_all,
    tracker,
)
from contextrender_bridge.engine.plan.call_text import select_text, sizes_of
from contextrender_bridge.engine.plan.partial_rebuild import (
    NO_CUT,
    Rebuild,
    rebuild_partially,
    select_few,
)
from contextrender_bridge.engine.plan.scores import scores_of
from contextrender_bridge.engine.plan.selection import NOTHING_SHOWN, Selection, Substitute
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder
from contextrender_bridge.engine.plan.show_newest import show_newest
from contextrender_bridge.engine.policies.by_density import IN_PART

REBUILD_EVERY: Final = 128
"""The prompt is rebuilt at the calls whose number is a multiple of this."""

COMPLETE_ONCE: Final = "complete in this call, an excerpt from the next one on"


def contextrender_cache_aware(context: CallContext) -> Selection:
    """Append the new results to the last answered call's selection, within the call's budget.

    If the results exceed the budget, rebuild the prompt. As long as all messages fit, select all
    results. If no earlier call was answered, assume that earlier prompts omitted nothing.
    """
    previous = select_answered_calls(context) if context.select_answered else context.previous
    selection = step(context, previous or NOTHING_SHOWN)
    if not selection.is_over:  # neither this prompt nor an earlier one omits anything
        return replace(select_all(context), budget=selection.budget)
    return replace(selection, reasons=_reasons(context, selection))


def step(context: CallContext, previous: Selection) -> Selection:
    """Return a call's selection. It continues the selection of the `previous` call.

    Adjust the budget first, and select within it. If the budget is automatic, this call alone may
    exceed it in order to show more of the newest results.
    """
    budget, follows_miss = adjust_budget(context, previous)
    selection = _select_within_budget(replace(context, budget=int(budget)), previous.as_continued())
    selection = replace(selection, budget=budget, follows_miss=follows_miss)
    # A fixed budget is both the start and the upper limit.
    is_automatic = 0 < context.start_budget < context.budget
    return show_newest(context, selection) if is_automatic else selection


def select_answered_calls(context: CallContext) -> Selection | None:
    """Return the last answered call's selection, or None if no call was answered.

    `context.previous` may be the selection of an earlier call. Then make the selections of the
    calls answered after it, one after the other, because each continues the prompt of the call
    before. An assistant message answers the call that had all messages before it.
    """
    selection, track = context.previous, tracker(context)
    after_previous_answer = selection.messages + 1 if selection else 0
    for position in range(after_previous_answer, context.message_count):
        if context.history.roles[position] == "assistant":
            selection = step(
                replace(context, message_count=position, track=track), selection or NOTHING_SHOWN
            )
    return selection


def _select_within_budget(context: CallContext, previous: Selection) -> Selection:
    """Return the selection within the call's budget.

    If everything fits, and nothing was omitted before, select everything. Otherwise append to the
    previous prompt if possible, or else rebuild the prompt.
    """
    if not previous.is_over and context.fits:
        # As long as `is_over` is false, a selection without results stands for all results.
        return Selection(context.message_count)
    is_full_rebuild_due = context.turn % REBUILD_EVERY == 0 or _is_expired(context, previous)
    if not is_full_rebuild_due and (builder := append_step(context, previous)):
        return _selection(
            builder, builder.finish_excerpts(), previous.rebuilt, previous.breakpoints
        )
    rebuild = _rebuild(context, previous, may_keep_start=not is_full_rebuild_due)
    excerpts = rebuild.builder.finish_excerpts()
    breakpoints = breakpoints_of(rebuild.builder, excerpts, rebuild.cut, previous.breakpoints)
    return _selection(rebuild.builder, excerpts, context.message_count, breakpoints)


def _is_expired(context: CallContext, previous: Selection) -> bool:
    """Return whether the previous prompt is so old that the provider's cache has dropped it.

    The limit is the parameter `cache_ttl_minutes`; 0 means that prompts do not expire. A prompt
    with the full history does not expire, because a rebuild would not change it.
    """
    minutes = context.parameters.cache_ttl_minutes
    if not minutes or not previous.is_over:
        return False
    return context.seconds_since(previous.messages) > 60 * minutes


def _rebuild(context: CallContext, previous: Selection, *, may_keep_start: bool) -> Rebuild:
    """Return a partial rebuild if one is good enough, otherwise a full rebuild.

    Without `may_keep_start`, always return a full rebuild. A partial rebuild is also impossible if
    the texts at the beginning of the prompt change.
    """
    scores, share = scores_of(context), context.parameters.rebuild_share
    text = select_text(context, previous.text)
    full_rebuild = SelectionBuilder(context, text)
    select_few(full_rebuild, scores, share)
    if may_keep_start and text == previous.text:
        partial_rebuild = rebuild_partially(context, previous, full_rebuild, scores, share)
        if partial_rebuild is not None:
            return partial_rebuild
    return Rebuild(full_rebuild)


def _selection(
    builder: SelectionBuilder,
    excerpts: dict[int, Substitute],
    rebuilt: int,
    breakpoints: tuple[int, ...],
) -> Selection:
    """Return the builder's selection, for a prompt that does not have the full history.

    `rebuilt` is the number of messages when the prompt was last rebuilt. `breakpoints` were chosen
    at that time.
    """
    return Selection(
        builder.context.message_count,
        text=builder.text,
        complete=tuple(sorted(builder.complete)),
        excerpts=excerpts,
        restored=dict(builder.restored),
        arguments=builder.arguments,
        is_over=True,  # this prompt or an earlier one omits something
        rebuilt=rebuilt,
        breakpoints=breakpoints,
    )


def _reasons(context: CallContext, selection: Selection) -> dict[int, str]:
    """Map each result's number to the reason why it is complete, an excerpt or omitted."""
    # The call at which the prompt was last rebuilt.
    history, messages_at_rebuild = context.history, selection.rebuilt
    is_rebuilt_now = messages_at_rebuild == selection.messages
    turn = history.turn if is_rebuilt_now else history.turns[messages_at_rebuild]
    rebuild = f"the prompt was rebuilt at call {turn}"
    # Begin with the reason of omitted results, and replace it for all results that are shown.
    reasons = dict.fromkeys(range(len(history.results)), f"left out when {rebuild}")
    for result in selection.complete:
        if history.results.message[result] >= messages_at_rebuild:
            reasons[result] = f"appended since {rebuild}"
        elif is_rebuilt_now:
            reasons[result] = "selected"
        else:
            reasons[result] = f"kept when {rebuild}"
    reasons |= dict.fromkeys(selection.excerpts, IN_PART)
    # This call shows these results complete, and the next call shows excerpts of them.
    complete_once = selection.next_excerpts.keys() - selection.excerpts.keys()
    return reasons | dict.fromkeys(complete_once, COMPLETE_ONCE)


QUARTERS: Final = (0.25, 0.5, 0.75)
MAX_BREAKPOINTS: Final = 3
"""The largest number of breakpoints. A provider may allow four, and the prompt's end needs one."""


def breakpoints_of(
    builder: SelectionBuilder, excerpts: dict[int, Substitute], cut: int, previous: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the positions of the messages after which a provider may cache the prompt.

    After a full rebuild (`cut` is NO_CUT), return the messages that reach 25%, 50% and 75% of the
    prompt's tokens. After a partial rebuild, the prompt is the same as before up to the message
    `cut`. Then return the last of the `previous` breakpoints in this part, or `cut` if there is
    none, and the last two of the other messages that come after it.
    """
    end_tokens = np.cumsum(_prompt_sizes(builder, excerpts))
    quarter_tokens = [share * end_tokens[-1] for share in QUARTERS]
    quarters: list[int] = np.searchsorted(end_tokens, quarter_tokens).tolist()
    if cut == NO_CUT:
        return tuple(sorted({*quarters}))
    # The provider has cached the part that stays the same only up to an earlier breakpoint, so keep
    # the last earlier breakpoint. The other breakpoints are as late as possible, because they then
    # cover most of the prompt.
    kept_breakpoint = max((position for position in previous if position <= cut), default=cut)
    later_quarters = [position for position in quarters if position > kept_breakpoint]
    last_quarters = later_quarters[-(MAX_BREAKPOINTS - 1) :]
    return tuple(sorted({kept_breakpoint, *last_quarters}))


def _prompt_sizes(builder: SelectionBuilder, excerpts: dict[int, Substitute]) -> np.ndarray:
    """Return the tokens of each message in the prompt, 0 for an omitted message."""
    context, history = builder.context, builder.context.history
    results, sizes = history.results, sizes_of(builder.text, context)
    unbudgeted = list(context.unbudgeted)
    sizes[unbudgeted] = np.array(history.text_tokens, np.int64)[unbudgeted]
    for result in (*builder.complete, *excerpts):
        excerpt = excerpts.get(result)
        sizes[results.call_message[result]] += builder.call_tokens[result]
        sizes[results.message[result]] += excerpt.tokens if excerpt else results.tokens[result]
    return sizes

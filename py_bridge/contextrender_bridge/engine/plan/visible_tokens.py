"""The tracked tokens that are visible in a prompt while its results are being selected."""

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.plan.call_text import are_changed
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder


def visible_tokens(builder: SelectionBuilder) -> NDArray[np.bool_]:
    """Return, for each tracked token, whether the prompt shows it with what is selected so far."""
    context, tracking = builder.context, builder.context.tracking
    results = context.view.history.results

    # Complete results, and the calls of all selected results, except for cut calls.
    is_complete = np.zeros(tracking.event_count, np.bool_)  # a flag for each event
    is_complete[[results.event[result] for result in builder.complete]] = True
    selected = {*builder.complete, *builder.fixed_excerpts, *builder.segments}
    is_complete[[results.call_event[result] for result in selected - {*builder.arguments}]] = True
    is_visible = _text_tokens(builder) | tracking.tokens_of_events(is_complete)

    # Substitutes, restored texts, and segments of new excerpts.
    texts = [excerpt.text for excerpt in builder.fixed_excerpts.values()]
    texts += [arguments.text for arguments in builder.arguments.values()]
    texts += [restored.text for restored in builder.restored.values()]
    is_visible[tracking.ids_of_texts(texts)] = True
    for segment in chain.from_iterable(builder.segments.values()):
        is_visible[tracking.ids_of_segments(segment, segment + 1)] = True
    return is_visible


def _text_tokens(builder: SelectionBuilder) -> NDArray[np.bool_]:
    """Return, for each tracked token, whether it is in a message's text that the prompt shows.

    It is cached in `tokens_of_texts`, because several builders of a call have the same texts.
    """
    context, history = builder.context, builder.context.view.history
    if (cached := context.tokens_of_texts.get(id(builder.text))) is not None:
        _, cached_tokens = cached
        return cached_tokens
    first_events = np.array(history.first_events[: context.message_count], np.int64)
    result_events = np.array(history.results.event[: context.result_count], np.int64)
    is_complete_text = np.zeros(context.tracking.event_count, np.bool_)
    is_complete_text[first_events[~are_changed(builder.text, context)]] = True
    is_complete_text[result_events] = False  # the first event of a result's message is the result
    has_token = context.tracking.tokens_of_events(is_complete_text)
    cut_texts = [substitute.text for substitute in builder.text.cut.values()]
    has_token[context.tracking.ids_of_texts(cut_texts)] = True
    # With the text in the entry, no other object can get the same `id`.
    context.tokens_of_texts[id(builder.text)] = builder.text, has_token
    return has_token

"""The first lines of results that must be shown, if not even an excerpt of them fits."""

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.excerpt_text import GAP, call_of_result, mark
from contextrender_bridge.engine.plan.selection import Substitute
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder
from contextrender_bridge.engine.plan.truncated_calls import cut_call
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD


def show_best_effort(
    builder: SelectionBuilder, result: int, token_limit: int, max_tokens: int
) -> None:
    """Select as much of a result and its call as fits `token_limit` tokens, or nothing.

    Select the complete result with its call if both fit. Otherwise, the call may be cut: select the
    complete result if it has at most half of the limit, or else only its first line. A first line
    has at most `max_tokens`. A cut call has at most `max_tokens`, or as many tokens as the prompt
    shows of the result, whichever is more.
    """
    if builder.costs[result] <= token_limit:
        builder.select_complete(result)
        return
    size = int(builder.context.sizes[result])
    half_limit = token_limit // 2
    # A result within half of the limit stays complete, because its call can have the other half.
    if size <= half_limit:
        if _cut_call_to_fit(builder, result, size, token_limit, max_tokens):
            builder.select_complete(result)
        return
    # A larger result is replaced by its first line.
    first_line = first_line_of(builder.context, result, min(half_limit, max_tokens))
    if first_line and _cut_call_to_fit(builder, result, first_line.tokens, token_limit, max_tokens):
        builder.select_excerpt(result, first_line)


def _cut_call_to_fit(
    builder: SelectionBuilder, result: int, shown_tokens: int, token_limit: int, max_tokens: int
) -> bool:
    """Cut a result's call, if call and result together exceed `token_limit`.

    The prompt shows `shown_tokens` of the result. A cut call has at most `max_tokens`, or as many
    tokens as are shown of the result. Return False if no cut call fits.
    """
    if builder.call_tokens[result] + shown_tokens <= token_limit:
        return True
    call_limit = min(token_limit - shown_tokens, max(max_tokens, shown_tokens))
    context = builder.context
    tool, arguments = call_of_result(context, result)
    cut_arguments = cut_call(tool, arguments, call_limit, context.counter)
    if cut_arguments is None:
        return False
    builder.cut_call(result, cut_arguments)
    return True


def first_line_of(context: CallContext, result: int, limit: int) -> Substitute | None:
    """Return a result's first line, cut to `limit` tokens, or None if no token of it fits.

    Begin with an excerpt's mark, which says what is omitted. Leave the mark out if it does not fit.
    """
    position, size = context.history.results.message[result], int(context.sizes[result])
    text = context.text_of(position)
    start = len(text) - len(text.lstrip())
    first_line = text[start:].partition("\n")[0]
    # Try with the mark, and then without it.
    for has_mark in (True, False):
        # The mark has the number of omitted tokens, which is only known when the line is cut. Until
        # then, reserve the tokens of a mark with the largest number.
        largest_mark = mark(position, size, size) if has_mark else ""
        line_limit = limit - MESSAGE_OVERHEAD - context.counter.text(largest_mark + GAP)
        if line_limit <= 0:
            continue
        line = context.counter.cut(first_line, line_limit)
        omitted_tokens = max(1, size - MESSAGE_OVERHEAD - context.counter.text(line))
        shown_text = (mark(position, size, omitted_tokens) if has_mark else "") + line + GAP
        tokens = context.counter.text(shown_text) + MESSAGE_OVERHEAD
        return Substitute(shown_text, tokens, ranges=(start, len(line)))
    return None

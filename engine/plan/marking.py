"""The text of an excerpt made of segments: marked, its gaps shown, with the id for all of it."""

from collections.abc import Sequence
from functools import cache
from typing import Final

from engine.history.replacement import Replacement
from engine.plan.moment import Moment
from engine.plan.view import View
from engine.text.tokens import MESSAGE_OVERHEAD, TokenCounter

GAP: Final = " […] "


def excerpt_of(moment: Moment, result: int, segments: Sequence[int]) -> Replacement:
    """The excerpt that shows these segments of a result, in the order they stand there.

    Made once a moment: late re-selection shows the newest result alike in many of its tries.
    """
    wanted = result, tuple(sorted(segments))
    if wanted not in moment.excerpts:
        moment.excerpts[wanted] = _excerpt(moment, *wanted)
    return moment.excerpts[wanted]


def _excerpt(moment: Moment, result: int, segments: Sequence[int]) -> Replacement:
    view, tracking = moment.view, moment.tracking
    results = view.history.results
    position = results.message[result]
    text = view.text_of(position)
    first, stop = tracking.first_segment.values[result : result + 2].tolist()
    ends = [0, *tracking.segment_end.values[first:stop].tolist()]
    parts: list[str] = []
    shown, reached = 0, first
    for segment in segments:
        if segment > reached:
            parts.append(_gap(parts))
        parts.append(text[ends[segment - first] : ends[segment - first + 1]])
        shown += int(tracking.segment_tokens.values[segment])
        reached = segment + 1
    if reached < stop:
        parts.append(_gap(parts).rstrip())
    tokens = results.tokens[result]
    left_out = max(1, tokens - MESSAGE_OVERHEAD - shown)
    excerpt = mark(position, tokens, left_out) + "".join(parts)
    return Replacement(excerpt, view.counter.text(excerpt) + MESSAGE_OVERHEAD)


def mark(position: int, tokens: int, left_out: int) -> str:
    """The line that opens an excerpt: what is missing, and the id to recall the whole by."""
    return (
        f"[Excerpt: {left_out} of {tokens} tokens left out at […]; "
        f"recall result {position} for all of it]\n"
    )


def mark_tokens(view: View, result: int) -> int:
    """About what an excerpt's opening line costs: what it has besides numbers, and their digits."""
    results = view.history.results
    tokens = results.tokens[result]
    numbers = 2 * _number_tokens(tokens) + _number_tokens(results.message[result])
    return _mark_words(view.counter) + numbers


@cache
def _mark_words(counter: TokenCounter) -> int:
    return counter.text(mark(1, 1, 1)) - 3


def _number_tokens(number: int) -> int:
    return (len(str(number)) + 2) // 3


def _gap(parts: Sequence[str]) -> str:
    return GAP.lstrip() if not parts or parts[-1][-1:].isspace() else GAP

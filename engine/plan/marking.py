"""The text of an excerpt made of segments: marked, its gaps shown, with the id for all of it."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from engine.history.frozen import Replacement
from engine.plan.left_lines import OFFSETS, left_out
from engine.plan.moment import Moment
from engine.plan.view import View
from engine.text.tokens import MESSAGE_OVERHEAD, TokenCounter, call_parts

GAP: Final = " […] "
MARKED: Final = re.compile("|".join([r"[\d.\-]+", *OFFSETS]))
"""A value that a mark may hold."""


def excerpt_of(moment: Moment, result: int, segments: Sequence[int]) -> Replacement:
    """The excerpt that shows these segments of a result, in the order they stand there.

    Made once a moment: late re-selection shows the newest result alike in many of its tries.
    """
    wanted = result, tuple(sorted(segments))
    if wanted not in moment.excerpts:
        moment.excerpts[wanted] = _excerpt(moment, *wanted)
    return moment.excerpts[wanted]


def _excerpt(moment: Moment, result: int, segments: Sequence[int]) -> Replacement:
    view, results = moment.view, moment.view.history.results
    tokens = results.tokens[result]
    shown = sum(int(moment.tracking.segment_tokens.values[segment]) for segment in segments)
    missing = max(1, tokens - MESSAGE_OVERHEAD - shown)
    newest = view.start and result in moment.newest
    lines = _lines_left_out(moment, result, segments) if newest else ""
    opening = mark(results.message[result], tokens, missing, lines)
    body, runs = parts_of(moment, result, segments)
    excerpt = opening + body
    return Replacement(excerpt, view.counter.text(excerpt) + MESSAGE_OVERHEAD, shown=runs)


def parts_of(moment: Moment, result: int, segments: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """These segments of a result, in the order they stand there, with a mark at every gap; and
    which of its characters they are, as runs."""
    text = moment.view.text_of(moment.view.history.results.message[result])
    parts: list[str] = []
    shown: list[int] = []
    reached = 0
    for start, end in _spans(moment, result, segments):
        if start > reached:
            parts.append(_gap(parts))
        parts.append(text[start:end])
        shown += [start, end - start]
        reached = end
    if reached < len(text):
        parts.append(_gap(parts).rstrip())
    return "".join(parts), tuple(shown)


def _spans(moment: Moment, result: int, segments: Sequence[int]) -> list[tuple[int, int]]:
    """From where to where in a result's text these segments go, those side by side together."""
    first, stop = moment.tracking.first_segment.values[result : result + 2].tolist()
    ends = [0, *moment.tracking.segment_end.values[first:stop].tolist()]
    spans: list[tuple[int, int]] = []
    for segment in segments:
        start, end = ends[segment - first], ends[segment - first + 1]
        if spans and spans[-1][1] == start:
            start = spans.pop()[0]
        spans.append((start, end))
    return spans


def _lines_left_out(moment: Moment, result: int, segments: Sequence[int]) -> str:
    view = moment.view
    message, number = view.history.call_of(result)
    name, arguments = call_parts(view.originals(message, message + 1)[0]["tool_calls"][number])
    text = view.text_of(view.history.results.message[result])
    return left_out(text, _spans(moment, result, segments), name, arguments)


def back_mark(position: int, *, whole: bool) -> str:
    """The line that opens what came back of a result behind another."""
    if whole:
        return f"[Result {position}, which left, again:]\n"
    return f"[Parts of result {position}, which left; recall result {position} for all of it:]\n"


def mark(position: int, tokens: int, missing: int, lines: str = "") -> str:
    """The line that opens an excerpt: what is missing, and the id to recall the whole by."""
    told = f"{lines}; " if lines else ""
    return (
        f"[Excerpt: {missing} of {tokens} tokens left out at […]; {told}"
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

"""The text of an excerpt made of segments: marked, its gaps shown, with the id for all of it.

What of a newest result is left out is told in its tool's own terms: an agent knows cut output from
there, and can go on from it.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.selection import Substitute
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD, TokenCounter, call_parts

READERS: Final = re.compile(r"(?i)(^|[_.\-])(read|view|open|cat)([_.\-]?file)?$")
"""Tools that read a file from a line on, if they are asked to."""

OFFSETS: Final = ("offset", "start_line", "line_start", "startLine")
NUMBERED: Final = re.compile(r"\s*(\d{1,7})(?:→|\t|\| |:\s)")
MOST_RANGES: Final = 3
FEWEST_LINES: Final = 8

Span = tuple[int, int]

GAP: Final = " […] "
MARKED: Final = re.compile("|".join([r"[\d.\-]+", *OFFSETS]))
"""A value that a mark may hold."""


def excerpt_of(moment: CallContext, result: int, segments: Sequence[int]) -> Substitute:
    """The excerpt that shows these segments of a result, in the order they stand there.

    Made once a moment: late re-selection shows the newest result alike in many of its tries.
    """
    wanted = result, tuple(sorted(segments))
    if wanted not in moment.excerpts:
        moment.excerpts[wanted] = _excerpt(moment, *wanted)
    return moment.excerpts[wanted]


def _excerpt(moment: CallContext, result: int, segments: Sequence[int]) -> Substitute:
    view, results = moment.view, moment.view.history.results
    tokens = results.tokens[result]
    shown = sum(int(moment.tracking.segment_tokens.values[segment]) for segment in segments)
    missing = max(1, tokens - MESSAGE_OVERHEAD - shown)
    newest = view.start and result in moment.newest
    lines = _lines_left_out(moment, result, segments) if newest else ""
    opening = mark(results.message[result], tokens, missing, lines)
    body, runs = parts_of(moment, result, segments)
    excerpt = opening + body
    return Substitute(excerpt, view.counter.text(excerpt) + MESSAGE_OVERHEAD, ranges=runs)


def parts_of(
    moment: CallContext, result: int, segments: Sequence[int]
) -> tuple[str, tuple[int, ...]]:
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


def _spans(moment: CallContext, result: int, segments: Sequence[int]) -> list[tuple[int, int]]:
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


def _lines_left_out(moment: CallContext, result: int, segments: Sequence[int]) -> str:
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


def mark_tokens(view: PolicyInput, result: int) -> int:
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


def left_out(text: str, shown: Sequence[Span], tool: str, arguments: str) -> str:
    """The largest ranges of lines that none of the spans `shown` holds whole, and how to read them.

    Empty for a text of few lines. Numbers that the lines themselves begin with come first.
    """
    lines = text.split("\n")
    if len(lines) < FEWEST_LINES:
        return ""
    all_gaps = [_lines_of(text, gap) for gap in _gaps(len(text), shown)]
    gaps = sorted(sorted(all_gaps, key=lambda gap: gap[0] - gap[1])[:MOST_RANGES])
    if not gaps:
        return ""
    own = [(_number(lines[first - 1]), _number(lines[last - 1])) for first, last in gaps]
    numbered = [(first, last) for first, last in own if first is not None and last is not None]
    ranges = numbered if len(numbered) == len(gaps) else gaps
    told = "lines " + ", ".join(f"{first}-{last}" for first, last in ranges)
    told += " and others" if len(all_gaps) > len(gaps) else ""
    if READERS.search(tool) is None or ranges is not numbered:
        return told
    first, _ = max(ranges, key=lambda each: each[1] - each[0])
    return f"{told} (read on with {_offset(arguments)} {first})"


def _gaps(size: int, shown: Sequence[Span]) -> list[Span]:
    ends = [0, *(end for _, end in shown)]
    starts = [*(start for start, _ in shown), size]
    return [(end, start) for end, start in zip(ends, starts, strict=True) if start > end]


def _lines_of(text: str, gap: Span) -> Span:
    start, end = gap
    return text.count("\n", 0, start) + 1, text.count("\n", 0, end - 1) + 1


def _number(line: str) -> int | None:
    found = NUMBERED.match(line)
    return int(found[1]) if found else None


def _offset(arguments: str) -> str:
    try:
        given = json.loads(arguments)
    except ValueError:
        given = None
    names = given if isinstance(given, dict) else {}
    return next((name for name in OFFSETS if name in names), OFFSETS[0])

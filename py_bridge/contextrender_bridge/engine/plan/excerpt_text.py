"""The text of an excerpt: a mark with the number to recall the result by, segments, and gaps.

The mark of a newest result names the omitted lines and the tool's own offset argument, because an
agent knows from the tool how to read the rest of a cut file.
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
"""The names of tools that can read a file from a given line on."""

OFFSETS: Final = ("offset", "start_line", "line_start", "startLine")
NUMBERED: Final = re.compile(r"\s*(\d{1,7})(?:→|\t|\| |:\s)")
MAX_RANGES: Final = 3
MIN_LINES: Final = 8

Span = tuple[int, int]

GAP: Final = " […] "
MARKED: Final = re.compile("|".join([r"[\d.\-]+", *OFFSETS]))
"""Matches the values that a mark may have."""


def excerpt_of(context: CallContext, result: int, segments: Sequence[int]) -> Substitute:
    """Return the excerpt with these segments of a result, in text order.

    It is cached for the call, because the tries of a partial rebuild have many excerpts in common.
    """
    key = result, tuple(sorted(segments))
    if key not in context.excerpts:
        context.excerpts[key] = _excerpt(context, *key)
    return context.excerpts[key]


def _excerpt(context: CallContext, result: int, segments: Sequence[int]) -> Substitute:
    view, results = context.view, context.view.history.results
    tokens = results.tokens[result]
    excerpt_tokens = sum(int(context.tracking.segment_tokens.values[s]) for s in segments)
    omitted_tokens = max(1, tokens - MESSAGE_OVERHEAD - excerpt_tokens)
    names_lines = view.start and result in context.newest
    lines = _omitted_lines(context, result, segments) if names_lines else ""
    opening = mark(results.message[result], tokens, omitted_tokens, lines)
    body, ranges = parts_of(context, result, segments)
    excerpt = opening + body
    return Substitute(excerpt, view.counter.text(excerpt) + MESSAGE_OVERHEAD, ranges=ranges)


def parts_of(
    context: CallContext, result: int, segments: Sequence[int]
) -> tuple[str, tuple[int, ...]]:
    """Return these segments of a result as text, with a mark at every gap, and their ranges."""
    text = context.view.text_of(context.view.history.results.message[result])
    parts: list[str] = []
    ranges: list[int] = []
    last_end = 0
    for start, end in _spans(context, result, segments):
        if start > last_end:
            parts.append(_gap(parts))
        parts.append(text[start:end])
        ranges += [start, end - start]
        last_end = end
    if last_end < len(text):
        parts.append(_gap(parts).rstrip())
    return "".join(parts), tuple(ranges)


def _spans(context: CallContext, result: int, segments: Sequence[int]) -> list[tuple[int, int]]:
    """Return the start and end of these segments in the result's text; adjacent ones are joined."""
    first, stop = context.tracking.first_segment.values[result : result + 2].tolist()
    ends = [0, *context.tracking.segment_end.values[first:stop].tolist()]
    spans: list[tuple[int, int]] = []
    for segment in segments:
        start, end = ends[segment - first], ends[segment - first + 1]
        if spans and spans[-1][1] == start:
            start = spans.pop()[0]
        spans.append((start, end))
    return spans


def _omitted_lines(context: CallContext, result: int, segments: Sequence[int]) -> str:
    view = context.view
    message, number = view.history.call_of(result)
    name, arguments = call_parts(view.originals(message, message + 1)[0]["tool_calls"][number])
    text = view.text_of(view.history.results.message[result])
    return describe_omitted_lines(text, _spans(context, result, segments), name, arguments)


def restored_mark(position: int, *, is_complete: bool, edited_at: int = 0) -> str:
    """Return the first line of a restored result or of its parts.

    `edited_at` is the number of the call that edited the result's file since, 0 if none did.
    """
    version = f" before the edit at call {edited_at}" if edited_at else ""
    if is_complete:
        return f"[Result {position}, which left, again{version}:]\n"
    if version:
        version = f", as it was{version}"
    return (
        f"[Parts of result {position}, which left{version}; "
        f"recall result {position} for all of it:]\n"
    )


def mark(position: int, tokens: int, omitted_tokens: int, lines: str = "") -> str:
    """Return the first line of an excerpt. `lines` describes the omitted lines, if it is set."""
    lines_note = f"{lines}; " if lines else ""
    return (
        f"[Excerpt: {omitted_tokens} of {tokens} tokens left out at […]; {lines_note}"
        f"recall result {position} for all of it]\n"
    )


def mark_tokens(view: PolicyInput, result: int) -> int:
    """Return about how many tokens an excerpt's first line has: its words, and its digits."""
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


def describe_omitted_lines(text: str, spans: Sequence[Span], tool: str, arguments: str) -> str:
    """Return the largest ranges of lines that the spans do not have, and how to read them.

    Return nothing for a text of few lines. If the lines begin with numbers of their own, the ranges
    are in these numbers.
    """
    lines = text.split("\n")
    if len(lines) < MIN_LINES:
        return ""
    all_gaps = [_lines_of(text, gap) for gap in _gaps(len(text), spans)]
    gaps = sorted(sorted(all_gaps, key=lambda gap: gap[0] - gap[1])[:MAX_RANGES])
    if not gaps:
        return ""
    numbers = [(_number(lines[first - 1]), _number(lines[last - 1])) for first, last in gaps]
    numbered = [(first, last) for first, last in numbers if first is not None and last is not None]
    ranges = numbered if len(numbered) == len(gaps) else gaps
    description = "lines " + ", ".join(f"{first}-{last}" for first, last in ranges)
    description += " and others" if len(all_gaps) > len(gaps) else ""
    if READERS.search(tool) is None or ranges is not numbered:
        return description
    first, _ = max(ranges, key=lambda line_range: line_range[1] - line_range[0])
    return f"{description} (read on with {_offset(arguments)} {first})"


def _gaps(size: int, spans: Sequence[Span]) -> list[Span]:
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), size]
    return [(end, start) for end, start in zip(ends, starts, strict=True) if start > end]


def _lines_of(text: str, gap: Span) -> Span:
    start, end = gap
    return text.count("\n", 0, start) + 1, text.count("\n", 0, end - 1) + 1


def _number(line: str) -> int | None:
    match = NUMBERED.match(line)
    return int(match[1]) if match else None


def _offset(arguments: str) -> str:
    """Return the name of the tool's argument for the first line, by the call's arguments."""
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    names = value if isinstance(value, dict) else {}
    return next((name for name in OFFSETS if name in names), OFFSETS[0])

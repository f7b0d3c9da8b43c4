"""The text of an excerpt: a first line, the mark, and then segments with gaps between them.

The mark has the number with which the result can be recalled. For a newest result, it may also name
the omitted lines and the argument with which the agent's tool can read on. Long because it has the
whole format of an excerpt.
"""

import json
import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import Final

import numpy as np

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.selection import Substitute
from contextrender_bridge.engine.text.tokens import MESSAGE_OVERHEAD, TokenCounter, call_parts

READERS: Final = re.compile(r"(?i)(^|[_.\-])(read|view|open|cat)([_.\-]?file)?$")
"""Matches the names of tools that can read a file from a given line on."""

OFFSETS: Final = ("offset", "start_line", "line_start", "startLine")
"""The names that such a tool may have for its argument with the first line."""

NUMBERED: Final = re.compile(r"\s*(\d{1,7})(?:→|\t|\| |:\s)")
"""Matches the number that a tool shows at the beginning of a line."""

MAX_RANGES: Final = 3
"""A mark names at most this number of ranges of omitted lines."""
MIN_LINES: Final = 8
"""A mark names the omitted lines only if the text has at least this number of lines."""

Span = tuple[int, int]
"""The start and end of a part of a text in characters, or its first and last line."""

GAP: Final = " […] "


def excerpt_of(context: CallContext, result: int, segments: Collection[int]) -> Substitute:
    """Return the excerpt that shows these segments of a result, sorted by their place in the text.

    Excerpts are cached in the context, because a partial rebuild tries several selections, and many
    of them show the same excerpt.
    """
    key = result, tuple(sorted(segments))
    if key not in context.excerpts:
        context.excerpts[key] = _excerpt(context, *key)
    return context.excerpts[key]


def _excerpt(context: CallContext, result: int, segments: Sequence[int]) -> Substitute:
    """Write the excerpt that shows these segments of a result. `segments` are in text order.

    With a cache-aware policy, the mark of a newest result names the omitted lines, because the
    agent has just asked for this text and may read on.
    """
    results = context.history.results
    tokens = results.tokens[result]
    excerpt_tokens = sum(int(context.tracking.segment_tokens.values[s]) for s in segments)
    omitted_tokens = max(1, tokens - MESSAGE_OVERHEAD - excerpt_tokens)
    # The mark names the omitted lines only if the policy is cache-aware and the result is new.
    is_cache_aware = context.start_budget > 0  # no other policy has a start budget
    names_lines = is_cache_aware and result in context.newest
    lines = _omitted_lines(context, result, segments) if names_lines else ""
    first_line = mark(results.message[result], tokens, omitted_tokens, lines)
    body, ranges = parts_of(context, result, segments)
    excerpt = first_line + body
    return Substitute(excerpt, context.counter.text(excerpt) + MESSAGE_OVERHEAD, ranges=ranges)


def parts_of(
    context: CallContext, result: int, segments: Sequence[int]
) -> tuple[str, tuple[int, ...]]:
    """Return the text of these segments, with `GAP` wherever the result's text is omitted.

    Also return the segments' ranges of characters in the result, as a flat tuple: start, length,
    start, length.
    """
    text = context.text_of(context.history.results.message[result])
    parts: list[str] = []
    ranges: list[int] = []
    last_end = 0
    for start, end in _spans(context, result, segments):
        if start > last_end:  # text before this span is omitted
            parts.append(_gap_after(parts))
        parts.append(text[start:end])
        ranges += [start, end - start]
        last_end = end
    if last_end < len(text):  # the end of the text is omitted
        parts.append(_gap_after(parts).rstrip())
    return "".join(parts), tuple(ranges)


def _spans(context: CallContext, result: int, segments: Sequence[int]) -> list[tuple[int, int]]:
    """Return the start and end of these segments in the result's text. Join adjacent segments."""
    all_segments = context.tracking.segments_of(result)
    first, stop = all_segments.start, all_segments.stop
    ends = context.tracking.segment_end.values[first:stop].tolist()
    bounds = [0, *ends]  # a segment begins at the end of the one before
    spans: list[tuple[int, int]] = []
    for segment in segments:
        start, end = bounds[segment - first], bounds[segment - first + 1]
        if spans and spans[-1][1] == start:  # adjacent to the last span
            start, _ = spans.pop()
        spans.append((start, end))
    return spans


def segments_in(
    context: CallContext, result: int, ranges: Sequence[tuple[int, int]]
) -> frozenset[int]:
    """Return the segments of a result that overlap one of the ranges of characters."""
    segments = context.tracking.segments_of(result)
    ends = context.tracking.segment_end.values[segments.start : segments.stop]
    segments_in_ranges: set[int] = set()
    for start, end in ranges:
        first, last = np.searchsorted(ends, [start, end - 1], side="right").tolist()
        segments_in_ranges.update(segments[first : last + 1])
    return frozenset(segments_in_ranges)


def _omitted_lines(context: CallContext, result: int, segments: Sequence[int]) -> str:
    """Return a description of the lines of a result that these segments do not have."""
    tool, arguments = call_of_result(context, result)
    text = context.text_of(context.history.results.message[result])
    return describe_omitted_lines(text, _spans(context, result, segments), tool, arguments)


def call_of_result(context: CallContext, result: int) -> tuple[str, str]:
    """Return the tool's name and the arguments of a result's call."""
    message, number = context.history.call_of(result)
    (original,) = context.originals(message, message + 1)
    return call_parts(original["tool_calls"][number])


def restored_mark(position: int, *, is_complete: bool, edited_at: int = 0) -> str:
    """Return the line that a prompt shows before a restored result, or before its restored parts.

    `edited_at` is the number of the call that edited the result's file since, 0 if none did.
    """
    before_edit = f" before the edit at call {edited_at}" if edited_at else ""
    if is_complete:
        return f"[Result {position}, which left, again{before_edit}:]\n"
    version = f", as it was{before_edit}" if before_edit else ""
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


def mark_tokens(context: CallContext, result: int) -> int:
    """Estimate the tokens of the mark, which is the first line of a result's excerpt.

    Counting them exactly for every segment that is tried would take too long.
    """
    results = context.history.results
    # The mark has the position and two token counts, which have about the same length.
    size_tokens = _number_tokens(results.tokens[result])
    return (
        _mark_word_tokens(context.counter)
        + 2 * size_tokens
        + _number_tokens(results.message[result])
    )


@cache
def _mark_word_tokens(counter: TokenCounter) -> int:
    """Return the tokens of a mark without its numbers."""
    number_tokens = 3  # three numbers of one digit
    return counter.text(mark(1, 1, 1)) - number_tokens


def _number_tokens(number: int) -> int:
    """Return the tokens of a number; a token has up to three digits."""
    return (len(str(number)) + 2) // 3


def _gap_after(parts: Sequence[str]) -> str:
    """Return `GAP` without its first space if there are no parts, or if the last ends with one."""
    needs_space = bool(parts) and not parts[-1][-1:].isspace()
    return GAP if needs_space else GAP.lstrip()


def describe_omitted_lines(text: str, spans: Sequence[Span], tool: str, arguments: str) -> str:
    """Return a description of the largest ranges of lines between the spans, and how to read them.

    `spans` are the parts of `text` that the excerpt shows. An example of a description is "lines
    5-80 and others (read on with offset 5)". Return "" if nothing is omitted, or if the text has
    few lines. `tool` and `arguments` are the name and arguments of the call that returned `text`.
    """
    lines = text.split("\n")
    if len(lines) < MIN_LINES:
        return ""
    all_gaps = [_lines_of(text, gap) for gap in _gaps(len(text), spans)]
    if not all_gaps:
        return ""
    largest_gaps = sorted(all_gaps, key=_line_count, reverse=True)[:MAX_RANGES]
    gaps = sorted(largest_gaps)  # in text order
    # If the tool printed line numbers, use them: the text may begin in the middle of a file.
    numbered_gaps = _in_shown_numbers(gaps, lines)
    ranges = numbered_gaps or gaps
    description = "lines " + ", ".join(f"{first}-{last}" for first, last in ranges)
    if len(all_gaps) > len(gaps):
        description += " and others"
    # Only a tool that reads files by line number can read on.
    if READERS.search(tool) is None or not numbered_gaps:
        return description
    first, _ = max(ranges, key=_line_count)
    return f"{description} (read on with {_offset_name(arguments)} {first})"


def _line_count(lines: Span) -> int:
    """Return the number of lines of a range, from its first to its last line."""
    first, last = lines
    return last - first + 1


def _gaps(size: int, spans: Sequence[Span]) -> list[Span]:
    """Return the parts of a text of `size` characters before, between and after the spans."""
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), size]
    return [(end, start) for end, start in zip(ends, starts, strict=True) if start > end]


def _lines_of(text: str, gap: Span) -> Span:
    """Return the numbers of the first and the last line of a gap, from 1."""
    start, end = gap
    return text.count("\n", 0, start) + 1, text.count("\n", 0, end - 1) + 1


def _in_shown_numbers(gaps: Sequence[Span], lines: Sequence[str]) -> list[Span]:
    """Return the gaps as ranges of the line numbers that the tool printed in front of the lines.

    `gaps` are ranges of line numbers of the text, from 1. If the first or last line of a gap has no
    printed number, return an empty list.
    """
    numbered_gaps: list[Span] = []
    for first, last in gaps:
        first_number, last_number = _number(lines[first - 1]), _number(lines[last - 1])
        if first_number is None or last_number is None:
            return []
        numbered_gaps.append((first_number, last_number))
    return numbered_gaps


def _number(line: str) -> int | None:
    """Return the number that a tool shows at the beginning of a line, or None."""
    match = NUMBERED.match(line)
    return int(match[1]) if match else None


def _offset_name(arguments: str) -> str:
    """Return the name of the argument with which the tool can be given a first line.

    It is the name in `OFFSETS` that the call's `arguments` have, otherwise the most usual name.
    """
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    call_arguments = value if isinstance(value, dict) else {}
    return next((name for name in OFFSETS if name in call_arguments), OFFSETS[0])

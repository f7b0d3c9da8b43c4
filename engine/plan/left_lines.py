"""What of a newest result is left out, in its tool's own terms: an agent knows cut output from
there, and can go on from it."""

import json
import re
from collections.abc import Sequence
from typing import Final

READERS: Final = re.compile(r"(?i)(^|[_.\-])(read|view|open|cat)([_.\-]?file)?$")
"""Tools that read a file from a line on, if they are asked to."""

OFFSETS: Final = ("offset", "start_line", "line_start", "startLine")
NUMBERED: Final = re.compile(r"\s*(\d{1,7})(?:→|\t|\| |:\s)")
MOST_RANGES: Final = 3
FEWEST_LINES: Final = 8

Span = tuple[int, int]


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

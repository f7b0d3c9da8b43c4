"""Cutting a result's text into segments, the units that excerpts are made of."""

import re
from typing import Final

SEGMENT_CHARACTERS: Final = 220

_CUTS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"\n|\\n",
        r"[}\]][,;]?\s*(?=[{\[\"'])|[}\])],",
        r"[.;]\s|,\s?|\\t|\t",
        r"\s",
    )
)


def segment_ends(text: str, size: int = SEGMENT_CHARACTERS) -> list[int]:
    """Where each segment of `text` ends: about every `size` characters, the text's end last.

    A cut is made at the nearest line end, else at a record's end, else at another separator, else
    at white space, else at `size`. An empty text is one empty segment.
    """
    ends: list[int] = []
    start = 0
    least, most = size // 2, size * 3 // 2
    while len(text) - start > most:
        start = _cut(text, start, size, least, most)
        ends.append(start)
    ends.append(len(text))
    return ends


def _cut(text: str, start: int, size: int, least: int, most: int) -> int:
    for pattern in _CUTS:
        found = [match.end() for match in pattern.finditer(text, start + least, start + most)]
        if found:
            return min(found, key=lambda end: abs(end - start - size))
    return start + size

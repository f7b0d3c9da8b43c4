"""Searches in texts: for a query, a failure, the subject of a session, a file's name."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from contextrender_bridge.engine.text.tokens import content_text
from contextrender_bridge.engine.text.transcript import Json

AROUND: Final = 90
"""Characters reported before and after a match."""
LONGEST_FOUND: Final = 200
MOST_COUNTED: Final = 1_000
HEAD: Final = 2_000
TAIL: Final = 1_000
"""Characters of a text's beginning and end that are looked at for a failure."""
MARK: Final = '"is_error": true'

_FAILURE = re.compile(
    r"""
      \A\s*[\[<(*✗❌]{0,2}\s?(?:fatal|error|exception|failed|failure|panic)\b
    | ^Traceback\ \(most\ recent\ call\ last\)
    | ^[\w.]{0,80}(?:Error|Exception):
    | "(?:error|exception|errors)"\s*:\s*(?:"[^"]|\{\s*"|\[\s*[\{"]|true|[1-9])
    | "(?:is_?error|failed)"\s*:\s*true
    | "(?:success|ok)"\s*:\s*false
    | \b(?:exit|return)[ _-]?(?:code|status)"?>?\s*[:=]?\s*-?[1-9]
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)


class TextMatch(NamedTuple):
    """The first match of a query, with the text around it, and the number of matches.

    `start` counts characters from the text's beginning; `places` goes up to `MOST_COUNTED`.
    """

    places: int
    start: int
    before: str
    match: str
    after: str


class TextQuery:
    """A query: a text that is looked for as it is written, ignoring case."""

    def __init__(self, text: str) -> None:
        """Make a query. An empty one matches every text, at its beginning."""
        self._lower = text.lower()
        self._pattern = re.compile(re.escape(text), re.IGNORECASE)

    def look_in(self, text: str) -> TextMatch | None:
        """Return the first match in a text and the number of matches, or None."""
        if not self._lower:
            return TextMatch(0, 0, "", "", text[: 2 * AROUND])
        lower = text.lower()
        if self._lower not in lower:
            return None
        if (first := self._pattern.search(text)) is None:  # the two fold a few letters differently
            return None
        start, stop = first.span()
        count = min(lower.count(self._lower), MOST_COUNTED)
        return TextMatch(
            max(count, 1),
            start,
            text[max(0, start - AROUND) : start],
            text[start : min(stop, start + LONGEST_FOUND)],
            text[stop : stop + AROUND],
        )


def tells_failure(text: str, shell: str = "") -> bool:
    """Return whether a tool's result looks like that of a call that failed.

    The message's `shell` has the mark `is_error`, or the text begins or ends as tools report
    failures: with an error's name, a traceback, a status.
    """
    ends = text[-TAIL:] if len(text) > HEAD else ""
    return bool(_FAILURE.search(text[:HEAD]) or (ends and _FAILURE.search(ends))) or MARK in shell


LONGEST: Final = 80
LOOKED_AT: Final = 20_000
"""Characters of a text in which a folder is looked for."""

_FOLDER = re.compile(
    r"(?:working directory|<cwd>|cwd):? ?[`\"']?([/~][^\s`\"'<]*|[A-Z]:\\[^\n`\"'<]*)", re.I
)
_ADDED = re.compile(r"<([a-z_-]+)>.*?</\1>", re.S)
"""A block that agents add to a user's words, such as `<system-reminder>`."""


def opening_of(messages: Sequence[Json]) -> str:
    """Return the working folder's name, if a text has it, and the user's first words."""
    folder = words = ""
    for message in messages:
        if message["role"] not in ("system", "developer", "user"):
            break
        text = content_text(message.get("content"))
        if not folder and (match := _FOLDER.search(text[:LOOKED_AT])):
            folder = re.split(r"[/\\]", match[1].rstrip("/\\."))[-1]
        if not words and message["role"] == "user":
            words = " ".join(_ADDED.sub(" ", text[:LOOKED_AT]).split())
    opening = ": ".join(filter(None, (folder, words)))
    return opening if len(opening) <= LONGEST else opening[: LONGEST - 1] + "…"


_FILE_FIELD = re.compile(
    r'"(?:file_?path|path|file_?name|file|notebook_path|target_file)"\s*:\s*("(?:[^"\\]|\\.){1,400}")',
    re.IGNORECASE,
)
_FILE = re.compile(
    r"(?<![\w./:~-])[~.]{0,2}/?(?:[\w.-]{1,100}/){1,20}[\w-]{1,100}\.[A-Za-z]\w{0,9}\b"
)


def file_named(arguments: str) -> str:
    """Return the file that a call's arguments name first, in a field or in a command."""
    head = arguments[:HEAD]
    if field := _FILE_FIELD.search(head):
        try:
            return str(json.loads(field[1]))
        except ValueError:
            return field[1].strip('"')
    match = _FILE.search(head)
    return match[0] if match else ""

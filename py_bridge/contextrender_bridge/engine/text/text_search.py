"""Searches in texts: for a query, for a failure, and for the opening of a session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from contextrender_bridge.engine.text.tokens import content_text
from contextrender_bridge.engine.text.transcript import Json

CONTEXT_CHARACTERS: Final = 90
"""The number of characters that are reported before and after a match."""
MAX_MATCH_CHARACTERS: Final = 200
MAX_MATCH_COUNT: Final = 1_000
HEAD: Final = 2_000
TAIL: Final = 1_000
"""The number of a text's first and last characters that are searched for a failure."""
ERROR_MARK: Final = '"is_error": true'
"""The field of a message's JSON with which an agent marks the result of a failed call."""

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

    `start` is the match's position in the text. `match_count` is at most `MAX_MATCH_COUNT`.
    """

    match_count: int
    start: int
    before: str
    match: str
    after: str


class TextQuery:
    """A text that is searched in other texts literally, ignoring case."""

    def __init__(self, text: str) -> None:
        """Make a query that searches for `text`. An empty text matches the start of every text."""
        self._lower = text.lower()
        self._pattern = re.compile(re.escape(text), re.IGNORECASE)

    def find_in(self, text: str) -> TextMatch | None:
        """Return the first match in a text and the number of matches, or None if there is none."""
        if not self._lower:  # an empty query
            return TextMatch(0, 0, "", "", after=text[: 2 * CONTEXT_CHARACTERS])
        lower = text.lower()
        if self._lower not in lower:  # this is much faster than the pattern
            return None
        first_match = self._pattern.search(text)
        if first_match is None:  # `lower()` and the pattern disagree on the case of a few letters
            return None
        start, stop = first_match.span()
        count = min(lower.count(self._lower), MAX_MATCH_COUNT)
        return TextMatch(
            match_count=max(count, 1),
            start=start,
            before=text[max(0, start - CONTEXT_CHARACTERS) : start],
            match=text[start : min(stop, start + MAX_MATCH_CHARACTERS)],
            after=text[stop : stop + CONTEXT_CHARACTERS],
        )


def is_failure(text: str, other_fields: str = "") -> bool:
    """Return whether a tool's result looks like the result of a call that failed.

    It does if the text has an error's name, a traceback or a failure status near its beginning or
    end. It also does if `other_fields`, the JSON of the message without its text, has `is_error`.
    """
    tail = text[-TAIL:] if len(text) > HEAD else ""
    reports_failure = _FAILURE.search(text[:HEAD]) or _FAILURE.search(tail)
    return reports_failure is not None or ERROR_MARK in other_fields


MAX_OPENING: Final = 80
MAX_FOLDER: Final = 30
SEARCHED_CHARACTERS: Final = 20_000
"""The number of a text's first characters in which a folder and the user's words are searched."""

_FOLDER = re.compile(
    r"(?:working directory|<cwd>|cwd):? ?[`\"']?([/~][^\s`\"'<]*|[A-Z]:\\[^\n`\"'<]*)", re.I
)
_AGENT_BLOCK = re.compile(r"<([a-z_-]+)>.*?</\1>", re.S)
"""Matches a block that agents add to a user's words, such as `<system-reminder>`."""


def opening_of(messages: Sequence[Json]) -> str:
    """Return the user's first words and the working folder's name, as in "Fix the login (shop)".

    Either part is left out if it is not in the messages before the first answer.
    """
    folder = words = ""
    for message in messages:
        if message["role"] not in ("system", "developer", "user"):
            break
        text = content_text(message.get("content"))[:SEARCHED_CHARACTERS]
        if not folder and (match := _FOLDER.search(text)):
            folder = re.split(r"[/\\]", match[1].rstrip("/\\."))[-1]
        if not words and message["role"] == "user":
            words = " ".join(_AGENT_BLOCK.sub(" ", text).split())
    ending = f" ({folder[:MAX_FOLDER]})" if folder else ""
    max_words = MAX_OPENING - len(ending)
    if len(words) > max_words:
        words = words[: max_words - 1] + "…"
    return f"{words}{ending}".strip()

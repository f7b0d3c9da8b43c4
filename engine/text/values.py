"""Reusable values: the strings Tool-Flow Analysis follows from result to later use."""

import re

_ESCAPE = re.compile(r"\\[ntr\\]")
_CANDIDATE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{4,}")
SHORTEST = 6

_WORD = re.compile(r"[A-Za-z0-9_]{6,}")
CAPITAL_OR_UNDERSCORE = re.compile(r"[A-Z_]")


def unescape(text: str) -> str:
    r"""The text with the two-character escapes `\n` `\t` `\r` `\\` read as white space.

    Results and call arguments are often JSON text, where `\nname` would hide `name`.
    """
    return _ESCAPE.sub(" ", text)


def extract_values(text: str) -> set[str]:
    """The distinct reusable values of a text (`docs/method.md`, Tool-Flow Analysis).

    A value has at least 6 characters after its leading and trailing `.` `-` `_` are stripped,
    at least one of underscore, uppercase letter, digit, `-`, `.`, and is not a Titlecase word.
    """
    found: set[str] = set()
    for candidate in set(_CANDIDATE.findall(unescape(text))):
        value = candidate.strip("._-")
        # Letters alone are distinctive when one after the first is a capital.
        if len(value) >= SHORTEST and not (value.isalpha() and value[1:].islower()):
            found.add(value)
    return found


def extract_words(text: str) -> set[str]:
    """The distinct words that recall follows (`docs/method.md`, Measures).

    A word has 6 or more letters, digits or underscores, at least one uppercase or `_`.
    """
    words = set(_WORD.findall(unescape(text)))
    return {word for word in words if CAPITAL_OR_UNDERSCORE.search(word)}

"""Tracked tokens: what policies of our own follow from result to later use (docs/policies.md)."""

from typing import Final

from engine.text.kept_by_text import KeptByText
from engine.text.values import CANDIDATE, WORD, extract_values, extract_words, unescape

MOST_BYTES: Final = 4 * 2**20


def tracked_tokens(text: str) -> set[str]:
    """Values by Tool-Flow Analysis, and the tokens that recall follows."""
    return extract_words(text) | extract_values(text)


def remembered() -> KeptByText[frozenset[str]]:
    """The same, for texts that call after call shows."""
    return KeptByText(lambda text: frozenset(tracked_tokens(text)), MOST_BYTES)


def held_in(part: str, tracked: set[str]) -> set[str]:
    """Which of a text's tracked tokens stand in a part of it; a cut through a word makes none."""
    plain = unescape(part)
    values = {value.strip("._-") for value in set(CANDIDATE.findall(plain))}
    return values.union(WORD.findall(plain)) & tracked

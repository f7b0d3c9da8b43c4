"""Tracked tokens: what policies of our own follow from result to later use (docs/policies.md)."""

from functools import lru_cache

from engine.text.values import CANDIDATE, WORD, extract_values, extract_words, unescape


def tracked_tokens(text: str) -> set[str]:
    """Values by Tool-Flow Analysis, and the tokens that recall follows."""
    return extract_words(text) | extract_values(text)


@lru_cache(maxsize=512)
def tracked_again(text: str) -> frozenset[str]:
    """The same, kept for texts that call after call shows."""
    return frozenset(tracked_tokens(text))


def held_in(part: str, tracked: set[str]) -> set[str]:
    """Which of a text's tracked tokens stand in a part of it; a cut through a word makes none."""
    plain = unescape(part)
    values = {value.strip("._-") for value in set(CANDIDATE.findall(plain))}
    return values.union(WORD.findall(plain)) & tracked

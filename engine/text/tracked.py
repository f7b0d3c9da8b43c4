"""Tracked tokens: what policies of our own follow from result to later use (docs/policies.md)."""

from collections import OrderedDict
from typing import Final

from engine.text.values import CANDIDATE, WORD, extract_values, extract_words, unescape

MOST_REMEMBERED: Final = 128


def tracked_tokens(text: str) -> set[str]:
    """Values by Tool-Flow Analysis, and the tokens that recall follows."""
    return extract_words(text) | extract_values(text)


class Remembered:
    """The tracked tokens of texts that call after call shows: of those asked for last."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, frozenset[str]] = OrderedDict()
        self.nbytes = 0
        """A close estimate of the memory held, in bytes."""

    def tokens(self, text: str) -> frozenset[str]:
        """As `tracked_tokens`."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = frozenset(tracked_tokens(text))
            self.nbytes += _size(text, found)
            if len(self._known) > MOST_REMEMBERED:
                self.nbytes -= _size(*self._known.popitem(last=False))
        else:
            self._known.move_to_end(text)
        return found


def _size(text: str, tokens: frozenset[str]) -> int:
    return len(text) + 100 * len(tokens) + 300


def held_in(part: str, tracked: set[str]) -> set[str]:
    """Which of a text's tracked tokens stand in a part of it; a cut through a word makes none."""
    plain = unescape(part)
    values = {value.strip("._-") for value in set(CANDIDATE.findall(plain))}
    return values.union(WORD.findall(plain)) & tracked

"""Kinds of tracked tokens, and how much more one of a kind is used again than others.

A kind is what one tool's results say in one shape: its numbers, its file names, its identifiers.
(docs/policies.md, Kinds)
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engine.history.growing import Growing

USUAL: Final = 0.05
"""The share of tokens that is used again, as far as a session has not shown."""

CAUTION: Final = 20.0
"""Tokens of a kind after which the session's own share counts as much as the usual one."""

TRUST: Final = 0.6

EXACT: Final = 1024
"""Weights are whole parts of this, so that sums of them are the same in any order."""

_SHAPES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"[\d.\-_]+",
        r"[0-9a-f\-]{16,}",
        r"[A-Z][a-z]+",
        r"[A-Z]+",
        r"[^\W\d_]+",
        r".*\..*",
        r"[^A-Z]*_[^A-Z]*",
        r".*_.*",
        r".*-.*",
        r"[^A-Z]*",
        r".*",
    )
)


def shape_of(token: str) -> int:
    """Which of the shapes a token has: the first that it matches whole."""
    return next(number for number, shape in enumerate(_SHAPES) if shape.fullmatch(token))


class Kinds:
    """The kind of every tracked token, by the token's number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._of = Growing(np.int32)

    @property
    def nbytes(self) -> int:
        """The memory held, in bytes."""
        return self._of.nbytes + 150 * len(self._numbers)

    def extend(self, tokens: Iterable[str], tool: str) -> None:
        """Numbers the next tokens, which a tool's result said, or none (an empty name)."""
        numbers = self._numbers
        kinds = [(tool, shape_of(token)) for token in tokens]
        self._of.extend([numbers.setdefault(kind, len(numbers)) for kind in kinds])

    def first(self, count: int) -> "Kinds":
        """The same of the first `count` tokens alone, for reading."""
        found = Kinds()
        found._numbers, found._of = self._numbers, self._of.first(count)
        return found

    def weights(self, used: NDArray[np.bool_]) -> NDArray[np.float64]:
        """By token, how much more one of its kind was used so far than is usual, tempered."""
        kinds = self._of.values
        share = np.bincount(kinds, used) + CAUTION * USUAL
        share /= (np.bincount(kinds) + CAUTION) * USUAL
        weights: NDArray[Any] = (np.round(share**TRUST * EXACT) / EXACT)[kinds]
        return weights

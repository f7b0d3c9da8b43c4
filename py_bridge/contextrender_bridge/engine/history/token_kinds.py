"""The kinds of tracked tokens. Tokens of some kinds are used more often than others.

A kind consists of the tokens of one shape in one tool's results, for example all numbers or all
file names. The weight of a token follows from its kind (docs/policies.md, Weights).
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contextrender_bridge.engine.history.growable_arrays import GrowableArray

PRIOR_SHARE: Final = 0.05
"""The share of the tokens of a kind that is assumed to be used, before any token was observed."""

PRIOR_TOKENS: Final = 20.0
"""`PRIOR_SHARE` counts as much as this number of observed tokens of the kind."""

WEIGHT_EXPONENT: Final = 0.6

WEIGHT_STEPS: Final = 1024
"""Weights are multiples of 1 / `WEIGHT_STEPS`, so that their sums are the same in any order."""

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
    """Return the number of the first shape that the complete token matches."""
    return next(number for number, shape in enumerate(_SHAPES) if shape.fullmatch(token))


class TokenKinds:
    """The kind of every tracked token, by the token's number."""

    def __init__(self) -> None:
        """Start without tokens and kinds."""
        self._kind_numbers: dict[tuple[str, int], int] = {}
        """The number of each kind, by its tool and shape."""
        self._kind_of_token = GrowableArray(np.int32)  # the number of each token's kind

    @property
    def nbytes(self) -> int:
        """The memory held, in bytes."""
        return self._kind_of_token.nbytes + 150 * len(self._kind_numbers)

    def extend(self, tokens: Iterable[str], tool: str) -> None:
        """Add the next tokens. `tool` is the tool whose result has them, or "" for other texts."""
        numbers = self._kind_numbers
        kinds = [(tool, shape_of(token)) for token in tokens]
        self._kind_of_token.extend([numbers.setdefault(kind, len(numbers)) for kind in kinds])

    def first(self, count: int) -> "TokenKinds":
        """Return the kinds of the first `count` tokens. Do not add to it."""
        kinds = TokenKinds()
        kinds._kind_numbers = self._kind_numbers
        kinds._kind_of_token = self._kind_of_token.first(count)
        return kinds

    def weights(self, is_used: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the weight of each token, from how often its kind was used (docs/policies.md).

        `is_used` says for each token whether a turn used it.
        """
        kinds = self._kind_of_token.values
        # For each kind: the share of its tokens that were used, divided by `PRIOR_SHARE`. The prior
        # counts like `PRIOR_TOKENS` more tokens, so that few tokens do not give an extreme share.
        ratio = np.bincount(kinds, is_used) + PRIOR_TOKENS * PRIOR_SHARE
        ratio /= (np.bincount(kinds) + PRIOR_TOKENS) * PRIOR_SHARE
        kind_weights = np.round(ratio**WEIGHT_EXPONENT * WEIGHT_STEPS) / WEIGHT_STEPS
        weights: NDArray[Any] = kind_weights[kinds]
        return weights

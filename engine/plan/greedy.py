"""Greedy selection of complete results under a budget (`docs/method.md`, Selection)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.history.vectors import Vectors as Vector

Floats = NDArray[np.float64]

_DECIMALS = 6


@dataclass(slots=True, frozen=True)
class Greedy:
    """What was taken, in order; what it used; final scores.

    `scores` holds the last score of every candidate, those not taken included.
    """

    taken: list[int]
    tokens: int
    scores: Floats


def cosines(rows: Vector, vector: Vector) -> Floats:
    """Cosines of unit rows (n, d) with one unit vector (d,), to 6 decimals.

    Each row is summed in the same order wherever it stands, so equal texts tie exactly; BLAS (`@`)
    does not promise that. Rounding hides what is left of the hardware.
    """
    if rows.shape[1] != vector.shape[0]:
        return np.zeros(len(rows))
    exact: Vector = np.einsum("ij,j->i", rows, vector)
    return np.round(exact.astype(np.float64), _DECIMALS)


def usefulness(
    ages: Floats,
    reuse: Floats,
    relevance: Floats,
    *,
    weights: tuple[float, float, float],
    recency_decay: float,
    reuse_rate: float,
) -> Floats:
    """U of every result: recency, observed reuse and relevance, weighted in that order."""
    recency_weight, reuse_weight, relevance_weight = weights
    return (
        recency_weight * np.exp(-recency_decay * ages)
        + reuse_weight * (1.0 - np.exp(-reuse_rate * reuse))
        + relevance_weight * relevance
    )


def select_greedily(
    scores: Floats,
    tokens: NDArray[np.int64],
    free: int,
    cosines_to: Callable[[int], Floats],
    redundancy_penalty: float,
) -> Greedy:
    """Takes, while anything fits `free` tokens, the result of highest `U - penalty * redundancy`.

    `scores` are U (n,), `tokens` what each costs (n,), `cosines_to(i)` every result's cosine to
    result i (n,). A result's redundancy is its highest cosine to those taken, at least 0. There is
    no minimum score, what does not fit is skipped, and of equal scores the older is taken.
    """
    redundancy = np.zeros(len(scores))
    current = scores.astype(np.float64)
    last = current.copy()
    available = tokens <= free
    taken: list[int] = []
    used = 0
    while available.any():
        best = int(np.argmax(np.where(available, current, -np.inf)))
        last[best] = current[best]
        taken.append(best)
        used += int(tokens[best])
        available[best] = False
        available &= tokens <= free - used
        if redundancy_penalty and available.any():
            np.maximum(redundancy, cosines_to(best), out=redundancy)
            current = scores - redundancy_penalty * redundancy
            np.copyto(last, current, where=available)
    return Greedy(taken, used, last)

"""Greedy selection against a plain rewrite of the rules."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.plan.ranking import select_greedily
from tests.support import slow_rules
from tests.support.strategies import modest


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """Few distinct numbers, so that ties, exact fits and equal texts are common."""
    n = draw(st.integers(0, 7))
    useful = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 2.75, -0.5, 0.1 + 0.2, 0.3])
    cosine = st.sampled_from([1.0, 0.0, -1.0, 0.5, 0.554700, -0.25])
    half = [[draw(cosine) for _ in range(row)] for row in range(n)]
    matrix = [[1.0 if i == j else half[max(i, j)][min(i, j)] for j in range(n)] for i in range(n)]
    return {
        "usefulness": draw(st.lists(useful, min_size=n, max_size=n)),
        "costs": draw(st.lists(st.integers(1, 6).map(lambda k: 10 * k), min_size=n, max_size=n)),
        "free": draw(st.integers(-1, 20)) * 10,
        "cosine": matrix,
        "penalty": draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])),
    }


@given(problems())
@modest
def test_the_choice_equals_a_plain_rewrite(problem: dict[str, Any]) -> None:
    matrix = np.array(problem["cosine"])
    greedy = select_greedily(
        np.array(problem["usefulness"]),
        np.array(problem["costs"], dtype=np.int64),
        problem["free"],
        lambda result: matrix[result],
        problem["penalty"],
    )
    assert greedy.taken == slow_rules.greedy(**problem)
    assert greedy.tokens == sum(problem["costs"][taken] for taken in greedy.taken)
    assert greedy.tokens <= max(problem["free"], 0)

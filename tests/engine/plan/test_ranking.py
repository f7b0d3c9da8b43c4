"""Greedy selection: worked cases and a reference implementation."""

from typing import Any

import numpy as np
import pytest
from contextrender_bridge.engine.plan.ranking import select_greedily
from hypothesis import given
from hypothesis import strategies as st

from tests.support import slow_rules
from tests.support.golden import golden
from tests.support.strategies import modest

GOLDEN = golden("selection")


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"budget {case['budget']}")
def test_greedy_selection_of_worked_cases(case: dict[str, Any]) -> None:
    matrix = np.array(case["cosine"])
    greedy = select_greedily(
        np.array(case["usefulness"]),
        np.array(case["tokens"]),
        case["budget"] - case["retained_tokens"],
        lambda result: matrix[result],
        0.5,
    )
    assert greedy.selected == case["picked_in_order"]
    assert greedy.tokens + case["retained_tokens"] == case["tokens_used"]


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """Draw few distinct numbers, so that ties, exact fits and equal texts are common."""
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
def test_greedy_selection_equals_reference(problem: dict[str, Any]) -> None:
    matrix = np.array(problem["cosine"])
    greedy = select_greedily(
        np.array(problem["usefulness"]),
        np.array(problem["costs"], dtype=np.int64),
        problem["free"],
        lambda result: matrix[result],
        problem["penalty"],
    )
    assert greedy.selected == slow_rules.greedy(**problem)
    assert greedy.tokens == sum(problem["costs"][result] for result in greedy.selected)
    assert greedy.tokens <= max(problem["free"], 0)

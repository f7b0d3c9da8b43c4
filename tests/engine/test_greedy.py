"""Greedy selection: the worked cases, a plain rewrite of the rules, and U."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.history.vectors import unit
from engine.plan.greedy import cosines, select_greedily, usefulness
from tests.support import slow_rules
from tests.support.golden import golden
from tests.support.strategies import modest

GOLDEN = golden("selection")


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"budget {case['budget']}")
def test_the_worked_cases(case: dict[str, Any]) -> None:
    matrix = np.array(case["cosine"])
    greedy = select_greedily(
        np.array(case["usefulness"]),
        np.array(case["tokens"]),
        case["budget"] - case["retained_tokens"],
        lambda result: matrix[result],
        0.5,
    )
    assert greedy.taken == case["picked_in_order"]
    assert greedy.tokens + case["retained_tokens"] == case["tokens_used"]


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


@given(problems())
@modest
def test_scores_say_what_each_was_worth_when_taken(problem: dict[str, Any]) -> None:
    matrix = np.array(problem["cosine"])
    useful, penalty = np.array(problem["usefulness"]), problem["penalty"]
    costs = np.array(problem["costs"], dtype=np.int64)
    greedy = select_greedily(useful, costs, problem["free"], lambda i: matrix[i], penalty)
    for rank, result in enumerate(greedy.taken):
        before = greedy.taken[:rank]
        redundancy = max([0.0, *(matrix[result][earlier] for earlier in before)])
        assert greedy.taken_scores[rank] == useful[result] - penalty * redundancy
        assert greedy.scores[result] == greedy.taken_scores[rank]
    assert len(greedy.scores) == len(useful)


def test_a_low_score_is_no_reason_to_leave_room_unused() -> None:
    greedy = select_greedily(
        np.array([-5.0, -9.0]), np.array([10, 10]), 20, lambda i: np.ones(2), 3
    )
    assert greedy.taken == [0, 1]


def test_u_is_recency_reuse_and_relevance() -> None:
    found = usefulness(
        np.array([1.0, 4.0]),
        np.array([0.0, 2.5]),
        np.array([0.25, 0.0]),
        weights=(1.0, 1.0, 1.0),
        recency_decay=0.3,
        reuse_rate=0.2,
    )
    expected = [math.exp(-0.3) + 0.25, math.exp(-1.2) + 1 - math.exp(-0.5)]
    assert found == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((2.0, 0.0, 0.0), 2 * math.exp(-0.9)),
        ((0.0, 2.0, 0.0), 2 - 2 * math.exp(-0.2)),
        ((0.0, 0.0, 2.0), 1.5),
    ],
)
def test_each_weight_has_its_part(weights: tuple[float, float, float], expected: float) -> None:
    parts = (np.array([3.0]), np.array([1.0]), np.array([0.75]))
    found = usefulness(*parts, weights=weights, recency_decay=0.3, reuse_rate=0.2)
    assert found == pytest.approx([expected], abs=1e-15)


@pytest.mark.parametrize("width", [3, 256])
def test_equal_texts_tie_wherever_they_stand(width: int) -> None:
    random = np.random.default_rng(7)
    for count in (1, 2, 5, 17, 50, 101):
        for _ in range(60):
            row, query = (unit(random.normal(size=width).astype(np.float32)) for _ in range(2))
            found = cosines(np.tile(row, (count, 1)), query)
            assert len(set(found.tolist())) == 1
            assert found[0] == cosines(row[None, :], query)[0]
            assert found[0] == pytest.approx(float(row @ query), abs=2e-6)


def test_vectors_of_another_width_are_like_nothing() -> None:
    assert cosines(np.ones((2, 3), np.float32), np.ones(4, np.float32)).tolist() == [0, 0]
    assert cosines(np.zeros((2, 0), np.float32), np.zeros(0, np.float32)).tolist() == [0, 0]

"""The values that Tool-Flow Analysis follows: worked cases and a reference implementation."""

from typing import Any

import pytest
from contextrender_bridge.engine.history.reuse import extract_values
from hypothesis import given
from hypothesis import strategies as st

from tests.support import slow_rules
from tests.support.golden import golden
from tests.support.growth import grows_in_proportion
from tests.support.strategies import modest, texts

GOLDEN = golden("values")


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["text"][:30])
def test_values_of_worked_cases(case: dict[str, Any]) -> None:
    assert sorted(extract_values(case["text"])) == sorted(case["values"])


@given(texts(longest=1) | st.text(st.sampled_from("aZ09_.-\\ntr é\n")) | st.text())
@modest
def test_values_equal_reference(text: str) -> None:
    assert extract_values(text) == slow_rules.values(text)


@pytest.mark.parametrize("run", ["a", "a_", "\\", "Aa1 "])
def test_extraction_time_is_linear(run: str) -> None:
    assert grows_in_proportion(lambda size: extract_values(run * (size // len(run))), 250_000)

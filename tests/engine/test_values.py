"""Which strings Tool-Flow Analysis follows: the worked cases and a plain rewrite of the rules."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.values import extract_values, unescape
from tests.support import slow_rules
from tests.support.golden import golden
from tests.support.growth import grows_in_proportion
from tests.support.strategies import modest, texts

GOLDEN = golden("values")


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["text"][:30])
def test_the_worked_cases(case: dict[str, Any]) -> None:
    assert sorted(extract_values(case["text"])) == sorted(case["values"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("abcde", set()),
        ("abc.de", {"abc.de"}),
        ("abcdef", set()),
        ("abcdeF", {"abcdeF"}),
        ("Abcdef", set()),
        ("ABCDEF", {"ABCDEF"}),
        ("123456", {"123456"}),
        ("__init__.py", {"init__.py"}),
        ("_abc1_", set()),
        ("-._abc-def._-", {"abc-def"}),
        ("order_17/order_17", {"order_17"}),
        ("éorder_17é", {"order_17"}),
        ("order_17١", {"order_17"}),
        ("Order.", set()),
        ("abc+def_g", set()),
    ],
)
def test_the_edges_of_a_value(text: str, found: set[str]) -> None:
    assert extract_values(text) == found


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (r"a\nb\tc\rd\\e", "a b c d e"),
        (r"\\name_1", " name_1"),
        (r"\\\name_1", "  ame_1"),
        (r"\x\u00e9", r"\x\u00e9"),
        ("real\nbreak\\", "real\nbreak\\"),
    ],
)
def test_escapes_are_white_space(text: str, read: str) -> None:
    assert unescape(text) == read


@given(
    st.one_of(
        texts(longest=1),
        st.text(st.sampled_from("aZ09_.-\\ntr é\n"), max_size=60),
        st.text(max_size=60),
    )
)
@modest
def test_values_equal_a_plain_rewrite_of_the_rules(text: str) -> None:
    assert extract_values(text) == slow_rules.values(text)


@pytest.mark.parametrize("run", ["a", "_", "a_", "-.", "\\", "Aa1 "])
def test_no_text_takes_much_longer_than_others_of_its_length(run: str) -> None:
    assert grows_in_proportion(lambda size: extract_values(run * (size // len(run))), 250_000)

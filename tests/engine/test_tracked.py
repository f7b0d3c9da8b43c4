"""Texts whose tracked tokens are remembered are bounded, and their memory is the history's."""

from hypothesis import given
from hypothesis import strategies as st

from engine.history.history import History
from engine.history.tracking import Tracking
from engine.text.tracked import (
    MOST_BYTES,
    held_in,
    remembered,
    tracked_runs,
    tracked_tokens,
)
from engine.text.values import extract_values, extract_words

TEXTS = st.text(alphabet="abXY_9.-é \\n\0", max_size=60)


def test_what_is_remembered_is_what_would_be_found() -> None:
    known = remembered()
    text = "order_77 went to HOUSE-12"
    assert known(text) == known(text) == tracked_tokens(text)


def test_a_history_counts_them_as_its_own() -> None:
    history = History()
    tracking = history.tracking = Tracking()
    before = history.nbytes
    tracking.known("value_of_something " * 1_000)
    assert history.nbytes - before > 19_000
    for number in range(100):
        tracking.known(f"value_{number} " * 10_000)
    assert history.nbytes - before <= MOST_BYTES


@given(TEXTS)
def test_tracked_are_the_values_and_the_words(text: str) -> None:
    assert tracked_tokens(text) == extract_values(text) | extract_words(text)


@given(st.lists(TEXTS, min_size=1))
def test_each_part_holds_its_own_tokens_and_no_half_of_a_word(parts: list[str]) -> None:
    runs = tracked_runs(" ".join(parts))
    spaced = [f"{part} " for part in parts]
    assert held_in(spaced, runs) == [tracked_tokens(part) for part in parts]
    assert held_in(["Order_", "77 and more"], tracked_runs("Order_77 and more")) == [set(), set()]

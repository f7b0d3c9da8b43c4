"""Texts whose tracked tokens are remembered are bounded, and their memory is the history's."""

from engine.history.history import History
from engine.history.tracking import Tracking
from engine.text.tracked import MOST_BYTES, remembered, tracked_tokens


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

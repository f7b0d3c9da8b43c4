"""Texts whose tracked tokens are remembered are few, and their memory is counted."""

from engine.history.history import History
from engine.history.tracking import Tracking
from engine.text.tracked import MOST_REMEMBERED, Remembered, tracked_tokens


def test_what_is_remembered_is_what_would_be_found() -> None:
    remembered = Remembered()
    text = "order_77 went to HOUSE-12"
    assert remembered.tokens(text) == remembered.tokens(text) == tracked_tokens(text)


def test_the_texts_asked_for_last_are_remembered() -> None:
    remembered = Remembered()
    for number in range(MOST_REMEMBERED):
        remembered.tokens(f"order_{number:05}")
    full = remembered.nbytes
    for number in range(1_000, 1_000 + 3 * MOST_REMEMBERED):
        remembered.tokens(f"order_{number:05}")
    assert remembered.nbytes == full


def test_a_history_counts_them_as_its_own() -> None:
    history = History()
    history.tracking = Tracking()
    before = history.nbytes
    history.tracking.known("value_of_something " * 1_000)
    assert history.nbytes - before > 19_000

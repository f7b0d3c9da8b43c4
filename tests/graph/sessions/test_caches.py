"""Every cache of sessions is inside one limit."""

from collections.abc import Iterator
from typing import Any

import pytest

from engine.text.kept_by_text import BYTES_A_CHARACTER, KeptByText
from graph.sessions.caches import PASTS, TEXTS, WORKING_SET, limit_caches

CACHES: list[Any] = [WORKING_SET, PASTS, *TEXTS]


@pytest.fixture
def limits() -> Iterator[None]:
    before = [cache.limit for cache in CACHES]
    yield
    for cache, limit in zip(CACHES, before, strict=True):
        cache.limit = limit


def test_all_share_the_limit(limits: None) -> None:
    limit_caches(1001)
    assert sum(cache.limit for cache in CACHES) == 1001
    assert 0 < PASTS.limit < WORKING_SET.limit


def test_what_texts_hold_is_let_go_beyond_its_limit() -> None:
    asked: list[str] = []

    def note(text: str) -> int:
        asked.append(text)
        return len(text)

    kept = KeptByText(note, 10 * BYTES_A_CHARACTER)
    assert [kept(text) for text in ("four", "five!", "four", "other", "four")] == [4, 5, 4, 5, 4]
    assert asked == ["four", "five!", "other"]
    assert kept("five!") == 5 and asked[-1] == "five!"
    assert kept.nbytes <= kept.limit
    kept("longer than all that may be kept")
    assert kept.nbytes == 0

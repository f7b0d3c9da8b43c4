"""Every cache of sessions is inside one limit."""

from collections.abc import Iterator
from typing import Any

import pytest

from engine.lookback.kept import Pasts, SteppedPast
from graph.runtime.caches import PASTS, WORKING_SET, limit_caches


@pytest.fixture
def limits() -> Iterator[None]:
    before = (WORKING_SET.limit, PASTS.limit)
    yield
    WORKING_SET.limit, PASTS.limit = before


def test_all_share_the_limit(limits: None) -> None:
    limit_caches(1001)
    assert WORKING_SET.limit + PASTS.limit == 1001
    assert 0 < PASTS.limit < WORKING_SET.limit


def test_pasts_are_let_go_beyond_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SteppedPast, "nbytes", 10)
    nothing: Any = None
    pasts = Pasts(25)
    for key in range(5):
        pasts.get(key, nothing, nothing)
    assert list(pasts._held) == [3, 4]

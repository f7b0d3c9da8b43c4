"""Every cache of sessions is inside one limit."""

from collections.abc import Iterator
from typing import Any

import pytest

from engine.lookback.kept import Pasts
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


def test_pasts_are_let_go_beyond_theirs() -> None:
    nothing: Any = None
    none, all = Pasts(0), Pasts(2**30)
    for key in range(5):
        for pasts in (none, all):
            pasts.get(key, nothing, nothing)
    assert (len(none._held), len(all._held)) == (1, 5)

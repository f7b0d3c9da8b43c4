"""Pauses of Python's garbage collection."""

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from contextrender_bridge.runtime.collection import pause_garbage_collection


def test_collection_continues_after_the_last_of_several_pauses() -> None:
    barrier = Barrier(3)

    def pause(number: int) -> bool:
        with pause_garbage_collection():
            barrier.wait(timeout=60)
            return gc.isenabled()

    with ThreadPoolExecutor(3) as pool:
        assert not any(pool.map(pause, range(3)))
    assert gc.isenabled()


def test_collection_continues_after_an_error() -> None:
    with pytest.raises(KeyError), pause_garbage_collection(), pause_garbage_collection():
        raise KeyError
    assert gc.isenabled()

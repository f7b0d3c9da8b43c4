"""All threads of a service run on one processor that the system chose."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from contextrender_bridge.server.process.process_resources import OneProcessor

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs Linux and two processors",
)


@contextmanager
def thread(begin: Callable[[], None] = lambda: None) -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, initializer=begin) as pool:
        pool.submit(int).result()
        yield pool


def processors_of(pool: ThreadPoolExecutor) -> set[int]:
    return pool.submit(os.sched_getaffinity, 0).result()


def test_threads_share_one_processor_during_the_block() -> None:
    everywhere, processor = os.sched_getaffinity(0), OneProcessor()
    with (
        thread(processor.add_thread) as early,
        thread(processor.add_thread) as late,
        thread() as other,
    ):
        with processor.main_thread():
            assert os.sched_getaffinity(0) == everywhere
            processor.choose_processor()
            processors = os.sched_getaffinity(0)
            assert len(processors) == 1
            assert processors_of(early) == processors_of(late) == processors
            assert processors_of(other) == everywhere
        assert os.sched_getaffinity(0) == processors_of(early) == processors_of(late) == everywhere


def test_disabled_pinning_moves_no_thread() -> None:
    everywhere, processor = os.sched_getaffinity(0), OneProcessor(is_enabled=False)
    with processor.main_thread(), thread(processor.add_thread) as pool:
        processor.choose_processor()
        assert os.sched_getaffinity(0) == processors_of(pool) == everywhere

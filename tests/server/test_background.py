"""Background work is bounded, survives failures and is finished at shutdown."""

import threading

from contextrender_bridge.server.background import Background


def test_what_was_queued_is_finished() -> None:
    done: list[int] = []
    background = Background(threads=2)
    assert all(background.submit(lambda n=n: done.append(n)) for n in range(20))
    background.drain()
    assert sorted(done) == list(range(20))
    assert not background.submit(lambda: done.append(20))


def test_a_failure_hurts_nobody_else() -> None:
    done: list[int] = []
    background = Background(threads=1)
    background.submit(lambda: 1 / 0)
    background.submit(lambda: done.append(1))
    background.drain()
    assert done == [1]


def test_a_full_backlog_takes_no_more() -> None:
    gate = threading.Event()
    background = Background(threads=1, backlog=2)
    assert [background.submit(gate.wait) for _ in range(3)] == [True, True, False]
    gate.set()
    background.drain()

"""One thread tells what is late, and wakes no oftener than that."""

import threading
from contextlib import ExitStack

from graph.store.deadlines import Deadlines


def test_what_does_not_end_in_time_is_late_and_nothing_else() -> None:
    one = Deadlines(0.01)
    late, said = threading.Semaphore(0), list[str]()

    def note(name: str) -> None:
        said.append(name)
        late.release()

    with one.unless_late(lambda: note("ended")) as start:
        pass
    with one.unless_late(lambda: note("never started")):
        with one.unless_late(lambda: note("late")) as start:
            start()
            assert late.acquire(timeout=30)
        with one.unless_late(lambda: note("late again")) as start:
            start()
            assert late.acquire(timeout=30)
    one.close()
    assert said == ["late", "late again"]


def test_several_at_once_are_each_late() -> None:
    one = Deadlines(0.01)
    late = threading.Semaphore(0)
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(one.unless_late(late.release))()
        for _ in range(5):
            assert late.acquire(timeout=30)
    one.close()

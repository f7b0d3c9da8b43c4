"""A progress bar moves during a long task, in this process and in others."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from io import StringIO

import pytest
from contextrender_bridge.evaluation import workers
from contextrender_bridge.evaluation.progress import finish_steps
from rich.console import Console

from tests.support.waiting import wait_until


def long_task(steps: int) -> int:
    for _ in range(steps):
        time.sleep(0.02)
        finish_steps()
    return steps


@pytest.mark.parametrize("processes", [1, 2])
def test_progress_moves_within_a_task(monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    steps_shown: list[tuple[float, int]] = []

    class Bar:
        def __enter__(self) -> object:
            return lambda steps: steps_shown.append((time.monotonic(), steps))

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(workers, "show_progress", lambda description, total: Bar())
    monkeypatch.setattr(workers, "UPDATE_SECONDS", 0.02)
    # The first task has more steps than announced, and the second task has fewer.
    results = workers.run_tasks("Working", long_task, [(25,), (15,)], [20, 20], processes)
    assert results == [25, 15]
    assert sum(steps for _, steps in steps_shown) == 40
    assert len(steps_shown) > 4 and max(steps for _, steps in steps_shown) < 20


@pytest.mark.parametrize(
    "bar", [lambda: workers.show_progress("Working", 9), lambda: workers.show_waiting("Working")]
)
def test_bar_moves_while_no_step_is_finished(
    monkeypatch: pytest.MonkeyPatch, bar: Callable[[], AbstractContextManager[object]]
) -> None:
    """Until the first step, models are loaded, or a service starts."""
    terminal = Console(file=StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(workers, "Console", lambda stderr: terminal)
    output = terminal.file
    assert isinstance(output, StringIO)
    with bar():
        wait_until(
            lambda: len({line for line in output.getvalue().split("\r") if "Work" in line}) > 2
        )

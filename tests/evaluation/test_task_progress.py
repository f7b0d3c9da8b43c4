"""A progress bar moves during a long task, in this process and in others."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from io import StringIO

import pytest
from contextrender_bridge.engine.replay import let_requests_run
from contextrender_bridge.evaluation import workers
from contextrender_bridge.evaluation.workers import TaskProgress
from rich.console import Console


def long_task(pauses: int) -> int:
    for _ in range(pauses):
        time.sleep(0.02)
        let_requests_run()
    return pauses


@pytest.mark.parametrize("processes", [1, 2])
def test_progress_moves_within_a_task(monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    steps_shown: list[tuple[float, int]] = []

    class Bar:
        def __enter__(self) -> object:
            return lambda steps: steps_shown.append((time.monotonic(), steps))

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(workers, "show_progress", lambda description, total: Bar())
    monkeypatch.setattr(workers, "UPDATE_SECONDS", 0.1)
    results = workers.run_tasks("Working", long_task, [(60,), (60,)], [20, 20], processes)
    assert results == [60, 60]
    assert sum(steps for _, steps in steps_shown) == 40
    assert len(steps_shown) > 4 and max(steps for _, steps in steps_shown) < 20


def test_unfinished_task_is_never_shown_as_finished() -> None:
    steps_shown: list[int] = []
    progress = TaskProgress([10, 100], steps_shown.append)
    progress.counts[0], progress.counts[1] = 10_000, 10_000
    progress.show()
    assert sum(steps_shown) == 104
    progress.finish(1)
    progress.finish(0)
    assert sum(steps_shown) == 110


@pytest.mark.parametrize(
    "bar", [lambda: workers.show_progress("Working", 9), lambda: workers.show_waiting("Working")]
)
def test_bar_moves_while_no_step_is_finished(
    monkeypatch: pytest.MonkeyPatch, bar: Callable[[], AbstractContextManager[object]]
) -> None:
    """Until the first step, models are loaded, or a service starts."""
    terminal = Console(file=StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(workers, "Console", lambda stderr: terminal)
    with bar():
        time.sleep(0.6)
    assert isinstance(terminal.file, StringIO)
    frames = {line for line in terminal.file.getvalue().split("\r") if "Working" in line}
    assert len(frames) > 2

"""A progress bar moves during a long task, in this process and in others."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from io import StringIO
from pathlib import Path

import pytest
from contextrender_bridge.evaluation import workers
from contextrender_bridge.evaluation.progress import finish_steps
from rich.console import Console

from tests.support.waiting import wait_until

VISIBLE_STEPS = 15


def finish_visible_step(shown_steps: Path) -> None:
    """Finish a step, and wait until the bar has moved. The file grows with the bar."""
    size = shown_steps.stat().st_size
    finish_steps()
    wait_until(lambda: shown_steps.stat().st_size > size)


def long_task(steps: int, shown_steps: Path) -> int:
    for _ in range(VISIBLE_STEPS):
        finish_visible_step(shown_steps)
    finish_steps(steps - VISIBLE_STEPS)
    return steps


@pytest.mark.parametrize("processes", [1, 2])
def test_progress_moves_within_a_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, processes: int
) -> None:
    shown_steps, moves = tmp_path / "shown", list[int]()
    shown_steps.touch()

    def move(steps: int) -> None:
        moves.append(steps)
        with shown_steps.open("ab") as file:
            file.write(b"." * steps)

    monkeypatch.setattr(workers, "show_progress", lambda description, total: nullcontext(move))
    monkeypatch.setattr(workers, "UPDATE_SECONDS", 0.02)
    # The first task has more steps than announced, and the second task has fewer.
    tasks = [(25, shown_steps), (15, shown_steps)]
    assert workers.run_tasks("Working", long_task, tasks, [20, 20], processes) == [25, 15]
    assert sum(moves) == 40
    assert len(moves) > 4 and max(moves) < 20


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

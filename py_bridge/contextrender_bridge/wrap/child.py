"""The agent's process: in the same terminal and process group, with its signals and exit code."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

PASSED_ON = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)  # Windows has the first alone
]
DIED_OF = (signal.SIGINT, *PASSED_ON[:2])


def run_child(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs it to its end; the return code, negative for a signal. Raises OSError."""
    with _signals() as children:
        child = subprocess.Popen(list(command), env=dict(environment))
        children.append(child)
        return child.wait()


def end_like(status: int) -> int:
    """The exit code for the child's: of a signal that ends programs, by that signal itself."""
    if status >= 0:
        return status
    number = -status
    if number in DIED_OF:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return 128 + number


@contextmanager
def _signals() -> Iterator[list[subprocess.Popen[bytes]]]:
    """While the block runs, signals to this process are the child's.

    Ctrl-C comes to both from the terminal: this process lets the child decide what it means.
    """
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        for child in children:
            with suppress(ProcessLookupError):
                child.send_signal(number)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not _in_foreground():
            pass_on(number, frame)

    before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    try:
        yield children
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether a terminal's Ctrl-C reaches this process and its child alike."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)

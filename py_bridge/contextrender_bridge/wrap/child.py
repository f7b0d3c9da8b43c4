"""Runs the agent in the same terminal and process group, and forwards signals and its exit code."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType


def _existing_signals(*names: str) -> list[signal.Signals]:
    """Return those of the named signals that the system has. Windows lacks most of them."""
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


FORWARDED_SIGNALS = _existing_signals("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
ENDING_SIGNALS = _existing_signals("SIGINT", "SIGTERM", "SIGHUP")


def run_child(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command to its end and return its exit code.

    If a signal ended the command, the code is the signal's negative number. Signals that this
    process receives meanwhile are forwarded to the command. Raise OSError if the command cannot be
    started.
    """
    with _forward_signals() as children:
        child = subprocess.Popen(list(command), env=dict(environment))
        children.append(child)
        return child.wait()


def exit_status_of(status: int) -> int:
    """Return the exit code of this process, given the child's exit code as `run_child` returns it.

    If one of `ENDING_SIGNALS` ended the child, end this process by the same signal, so that the
    shell handles it in the same way.
    """
    if status >= 0:
        return status
    number = -status
    if number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return 128 + number  # as a shell reports it


@contextmanager
def _forward_signals() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Forward signals to the child while the block runs. Yield a list, to which it adds the child.

    The terminal sends Ctrl-C to both processes. This process ignores it, so that the child decides
    whether to end.
    """
    children: list[subprocess.Popen[bytes]] = []

    def forward(number: int, _: FrameType | None) -> None:
        """Send a signal to the child, unless it has just ended."""
        for child in children:
            with suppress(ProcessLookupError):
                child.send_signal(number)

    def interrupt(number: int, frame: FrameType | None) -> None:
        """Forward an interrupt unless it is Ctrl-C, which has reached the child already."""
        if not _is_in_foreground():
            forward(number, frame)

    # Install the handlers for the block, and restore the previous ones afterwards.
    previous_handlers = {number: signal.signal(number, forward) for number in FORWARDED_SIGNALS}
    previous_handlers[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    try:
        yield children
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _is_in_foreground() -> bool:
    """Return whether Ctrl-C in the terminal reaches both this process and its child.

    It does if they are the terminal's foreground process group. Without a terminal, it does not.
    """
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

"""Runs workers: starts them, replaces those that end or are stuck, and passes signals on.

Workers are forked, so that they share the memory of what was loaded before. The supervisor keeps
the listening socket open, so connections wait while a worker is replaced.
Long because starting, watching and stopping workers share one state.
"""

import mmap
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.printing import print_notice
from contextrender_bridge.workers.serving import Worker

Work = Callable[[Worker], int]

PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT)
RESTART_SECONDS: Final = 1.0
"""The least time between two starts of the same worker."""
STOP_SECONDS: Final = 20.0
"""Workers that do not stop within this time are killed."""
CHECK_SECONDS: Final = 5.0
"""The time between two checks of the heartbeats."""
STOP: Final = 75
"""The exit code of a worker that must not be replaced: the server stops."""
RENEW: Final = 76
"""The exit code of a worker that must be replaced at once, to free its memory."""
STUCK_CHECKS: Final = 12
"""The number of checks in a row without a heartbeat after which a worker is killed.

It counts checks, not seconds, because this process may have been suspended, too.
"""


class Supervisor:
    """The supervisor of `count` processes that run `work`, which returns an exit code.

    SIGTERM and SIGINT stop all processes in order.
    """

    def __init__(
        self,
        count: int,
        work: Work,
        *,
        ready: Callable[[], None] = lambda: None,
        on_end: Callable[[int], None] = lambda pid: None,
    ) -> None:
        """Prepare the workers. Raise CommandError if processes cannot be forked.

        `ready` is called when every worker serves. `on_end` is called with the process id of each
        worker that ended.
        """
        if not hasattr(os, "fork"):
            raise CommandError("the server needs Linux or macOS; on Windows, run it in WSL.")
        self._work = work
        self._on_ready = ready
        self._on_end = on_end
        self._ready_pipe, ready_end = os.pipe()  # a worker writes its number when it serves
        # Workers read the end of file from `alive` once the supervisor has died.
        alive, self._alive_end = os.pipe()
        beats = mmap.mmap(-1, count)  # one byte per worker, a counter of its heartbeats
        self._workers = [Worker(number, count, ready_end, alive, beats) for number in range(count)]
        self._running: dict[int, int] = {}
        """The number of each running worker, by its process id."""
        self._started: dict[int, float] = {}
        """The time of each worker's start, by its number."""
        self._serving: set[int] = set()
        """The numbers of the workers that serve."""
        self._beats = [0] * count
        """Each worker's counter at the last check."""
        self._missed_checks = [0] * count
        self._next_check = time.monotonic() + CHECK_SECONDS
        self._stop_deadline: float | None = None
        """The time at which workers that do not stop are killed; None until they must stop."""
        self._code = 0
        self._was_ready = False

    def run(self) -> int:
        """Run the workers until a signal, and return 0.

        If a worker cannot start, stop all workers and return its exit code. Python writes each
        signal to a pipe. The supervisor waits for this pipe, and for the pipe to which each worker
        writes when it serves. At the end, restore the previous signal handlers.
        """
        wakeup_pipe, signal_end = os.pipe()  # Python writes the number of each signal to it
        for end in (wakeup_pipe, signal_end, self._ready_pipe):
            os.set_blocking(end, False)
        signals = (*PASSED_ON, signal.SIGCHLD)
        # Set the pipe before the handlers, because a signal between the two would be lost.
        previous_end = signal.set_wakeup_fd(signal_end)
        previous_handlers = {number: signal.signal(number, lambda *_: None) for number in signals}
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(wakeup_pipe, selectors.EVENT_READ)
                selector.register(self._ready_pipe, selectors.EVENT_READ)
                self._watch(selector, wakeup_pipe)
        finally:
            signal.set_wakeup_fd(previous_end)
            for number, handler in previous_handlers.items():
                signal.signal(number, handler)
        return self._code

    def _watch(self, selector: selectors.BaseSelector, wakeup_pipe: int) -> None:
        """Start the workers and replace those that end, until all must stop and have ended."""
        self._start_missing()
        while self._running or self._stop_deadline is None:
            # Wait for an event or a timeout. If a signal has come, stop the workers.
            selector.select(self._seconds_to_wait())
            if set(PASSED_ON).intersection(_read(wakeup_pipe)):
                self._stop_workers()
            # Each byte in the pipe is the number of a worker that serves now.
            self._serving.update(_read(self._ready_pipe))
            if len(self._serving) == len(self._workers) and not self._was_ready:
                self._was_ready = True
                self._on_ready()
            # Replace workers that have ended or are stuck. At the end, kill workers that do not
            # stop in time.
            self._remove_ended()
            if self._stop_deadline is None:
                self._start_missing()
                self._check_heartbeats()
            elif time.monotonic() > self._stop_deadline:
                self._send(signal.SIGKILL)

    def _seconds_to_wait(self) -> float:
        """Return the seconds until the next scheduled action."""
        if self._stop_deadline is not None:
            return max(0.1, self._stop_deadline - time.monotonic())
        if len(self._running) < len(self._workers):  # a worker has ended and is not replaced yet
            return 0.05
        return max(0.0, self._next_check - time.monotonic())

    def _stop_workers(self) -> None:
        """Send SIGTERM to the workers. The first call sets the time at which they are killed."""
        if self._stop_deadline is None:
            self._stop_deadline = time.monotonic() + STOP_SECONDS
        self._send(signal.SIGTERM)

    def _remove_ended(self) -> None:
        """Forget the processes that have ended, and decide what follows from each end.

        While all workers are stopping, nothing follows.
        """
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            number = self._running.pop(pid, None)
            self._on_end(pid)
            if number is not None and self._stop_deadline is None:
                self._decide_on(number, os.waitstatus_to_exitcode(status))

    def _decide_on(self, number: int, code: int) -> None:
        """Decide by the exit code of a worker whether to stop all workers or to start it again.

        Stop all if the code is STOP, or if the worker failed before all workers served. Otherwise
        `_start_missing` starts the worker again. After its first RENEW, it does so without a wait.
        """
        self._serving.discard(number)
        if code == STOP:
            self._stop_workers()
        elif code == RENEW and self._workers[number].may_renew:
            self._workers[number] = replace(self._workers[number], may_renew=False)
            self._started.pop(number)  # So it need not wait for `RESTART_SECONDS`.
        elif not self._was_ready and code > 0:  # The worker has reported the reason.
            self._code = code
            self._stop_workers()
        else:
            print_notice(f"worker {number} ended ({code}); it is replaced.")

    def _start_missing(self) -> None:
        """Start each worker that is not running, at most once in `RESTART_SECONDS`."""
        for worker in self._workers:
            due = self._started.get(worker.number, float("-inf")) + RESTART_SECONDS
            if worker.number not in self._running.values() and time.monotonic() >= due:
                self._start(worker.number)

    def _check_heartbeats(self) -> None:
        """Kill workers whose event loop is blocked, once per CHECK_SECONDS.

        A worker counts its heartbeats in shared memory. If the count has not changed in
        STUCK_CHECKS checks in a row, the loop is blocked. Nothing is lost by the kill, because all
        writes that the worker has acknowledged are stored.
        """
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + CHECK_SECONDS
        for worker in self._workers:
            number = worker.number
            # Compare the worker's counter with the last check. A worker that does not serve yet has
            # no heartbeats.
            beats, previous_beats = worker.beats[number], self._beats[number]
            self._beats[number] = beats
            if beats != previous_beats or number not in self._serving:
                self._missed_checks[number] = 0
                continue
            self._missed_checks[number] += 1
            if self._missed_checks[number] >= STUCK_CHECKS:
                self._missed_checks[number] = 0
                print_notice(f"worker {number} is stuck and killed.")
                self._send(signal.SIGKILL, number)

    def _start(self, number: int) -> None:
        """Fork a process for the worker `number`.

        This process returns at once. The new process resets the signal handlers, runs the work and
        exits; it never returns.
        """
        self._started[number] = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:  # This is the supervisor.
            self._running[pid] = number
            return
        code = 1
        try:
            for signal_number in (*PASSED_ON, signal.SIGCHLD):
                signal.signal(signal_number, signal.SIG_DFL)
            # Do this after resetting the handlers. Until then, Python writes this process's signals
            # to the supervisor's pipe, and the supervisor sends them to this process again.
            signal.set_wakeup_fd(-1)
            os.close(self._alive_end)  # Only the supervisor may hold the writing end.
            code = self._work(self._workers[number])
        except CommandError as error:
            print_notice(str(error))
            code = error.status
        except BaseException as failure:
            sys.excepthook(type(failure), failure, failure.__traceback__)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _send(self, signal_number: signal.Signals, worker: int | None = None) -> None:
        """Send a signal to every worker, or only to worker number `worker`."""
        for pid, worker_number in self._running.items():
            if worker in (None, worker_number):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal_number)


def _read(pipe: int) -> bytes:
    """Return the bytes that a pipe has now; empty if it has none."""
    try:
        return os.read(pipe, 4096)
    except BlockingIOError:
        return b""

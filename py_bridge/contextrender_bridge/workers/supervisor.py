"""The process that starts the workers, replaces those that end or are stuck, and passes signals on.

Workers are forked, so that what was loaded before is loaded once and kept in memory once. The
listening socket stays open here: connections wait while a worker is replaced.
"""

from __future__ import annotations

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
from contextrender_bridge.workers.serving import Worker

Work = Callable[[Worker], int]

PASSED_ON: Final = (signal.SIGTERM, signal.SIGINT)
AGAIN_SECONDS: Final = 1.0
"""A worker that ended is replaced this long after its start, or later."""
LEAVE_SECONDS: Final = 20.0
"""Workers that do not stop within this time are killed."""
LOOK_SECONDS: Final = 5.0
"""The time between two checks of the heartbeats."""
STOP: Final = 75
"""A worker's exit code if it is not to be replaced: the server stops."""
RENEW: Final = 76
"""A worker's exit code if it is to be replaced at once, to free its memory."""
STUCK_LOOKS: Final = 12
"""The number of checks in a row without a heartbeat after which a worker is killed.

It counts checks, not seconds, because this process may have been suspended, too.
"""


class Supervisor:
    """Keeper of `count` processes that run `work`, which returns an exit code.

    SIGTERM and SIGINT stop all of them in order.
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

        `ready` is called when every worker serves, `on_end` with the process id of each that ended.
        """
        if not hasattr(os, "fork"):
            raise CommandError("the server needs Linux or macOS; on Windows, run it in WSL.")
        self._work = work
        self._on_ready = ready
        self._on_end = on_end
        self._ready_pipe, tell = os.pipe()  # a worker writes its number when it serves
        alive, self._alive = os.pipe()  # a worker reads the end of it when this process has died
        beats = mmap.mmap(-1, count)  # a counter for each worker, which its heartbeat raises
        self._places = [Worker(number, count, tell, alive, beats) for number in range(count)]
        self._workers: dict[int, int] = {}
        """The number of each worker, by its process id."""
        self._started: dict[int, float] = {}
        """The time of each worker's start, by its number."""
        self._serving: set[int] = set()
        self._beats = [0] * count
        self._missed = [0] * count
        self._next_look = time.monotonic() + LOOK_SECONDS
        self._deadline: float | None = None
        """The time at which workers that do not stop are killed; None before they must stop."""
        self._code = 0
        self._was_ready = False

    def run(self) -> int:
        """Run until a signal and return 0, or the exit code of a worker that could not start."""
        wake, woken = os.pipe()
        for end in (wake, woken, self._ready_pipe):
            os.set_blocking(end, False)
        signals = (*PASSED_ON, signal.SIGCHLD)
        # Set the pipe first: a signal between the two would be lost.
        old = signal.set_wakeup_fd(woken)
        before = {number: signal.signal(number, lambda *_: None) for number in signals}
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(wake, selectors.EVENT_READ)
                selector.register(self._ready_pipe, selectors.EVENT_READ)
                self._watch(selector, wake)
        finally:
            signal.set_wakeup_fd(old)
            for number, handler in before.items():
                signal.signal(number, handler)
        return self._code

    def _watch(self, selector: selectors.BaseSelector, wake: int) -> None:
        self._fill()
        while self._workers or self._deadline is None:
            selector.select(self._patience())
            if set(PASSED_ON).intersection(_read(wake)):
                self._end()
            self._serving.update(_read(self._ready_pipe))
            if len(self._serving) == len(self._places) and not self._was_ready:
                self._was_ready = True
                self._on_ready()
            self._reap()
            if self._deadline is None:
                self._fill()
                self._look()
            elif time.monotonic() > self._deadline:
                self._signal(signal.SIGKILL)

    def _patience(self) -> float:
        """Return the seconds until the next scheduled action."""
        if self._deadline is not None:
            return max(0.1, self._deadline - time.monotonic())
        if len(self._workers) < len(self._places):
            return 0.05
        return max(0.0, self._next_look - time.monotonic())

    def _end(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + LEAVE_SECONDS
        self._signal(signal.SIGTERM)

    def _reap(self) -> None:
        while self._workers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            number = self._workers.pop(pid, None)
            self._on_end(pid)
            if number is not None and self._deadline is None:
                self._replace(number, os.waitstatus_to_exitcode(status))

    def _replace(self, number: int, code: int) -> None:
        self._serving.discard(number)
        if code == STOP:
            self._end()
        elif code == RENEW and self._places[number].may_renew:
            self._places[number] = replace(self._places[number], may_renew=False)
            self._started.pop(number)
        elif not self._was_ready and code > 0:  # it has reported the reason
            self._code = code
            self._end()
        else:
            message = f"contextrender: worker {number} ended ({code}); it is replaced."
            print(message, file=sys.stderr)

    def _fill(self) -> None:
        """Start a worker in every free place."""
        for place in self._places:
            due = self._started.get(place.number, float("-inf")) + AGAIN_SECONDS
            if place.number not in self._workers.values() and time.monotonic() >= due:
                self._start(place.number)

    def _look(self) -> None:
        """Kill workers whose event loop is blocked. What they have acknowledged is stored."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_SECONDS
        for place in self._places:
            beats, at = place.beats[place.number], place.number
            has_beaten = beats != self._beats[at] or at not in self._serving
            self._missed[at] = 0 if has_beaten else self._missed[at] + 1
            self._beats[at] = beats
            if self._missed[at] >= STUCK_LOOKS:
                self._missed[at] = 0
                print(f"contextrender: worker {at} is stuck and killed.", file=sys.stderr)
                self._signal(signal.SIGKILL, at)

    def _start(self, number: int) -> None:
        self._started[number] = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            self._workers[pid] = number
            return
        code = 1
        try:
            for each in (*PASSED_ON, signal.SIGCHLD):
                signal.signal(each, signal.SIG_DFL)
            # Do this last: an earlier signal reaches the supervisor, which sends it again.
            signal.set_wakeup_fd(-1)
            os.close(self._alive)
            code = self._work(self._places[number])
        except CommandError as error:
            print(f"contextrender: {error}", file=sys.stderr)
            code = error.status
        except BaseException as failure:
            sys.excepthook(type(failure), failure, failure.__traceback__)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _signal(self, number: signal.Signals, only: int | None = None) -> None:
        for pid, at in self._workers.items():
            if only in (None, at):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 4096)
    except BlockingIOError:
        return b""

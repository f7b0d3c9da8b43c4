"""Servers forked from a process that has loaded the app, because a start uses a processor for 3 s.

A forked server opens its store itself, as each of several workers does, which are forked, too.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from contextrender_bridge.base import settings
from contextrender_bridge.server.process.start import serve
from contextrender_bridge.store import sqlite
from jaclang.jac0core.runtime import JacRuntime

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.server.loaded_app", __name__])

LOCK_TIMEOUT = "CONTEXTRENDER_DATABASE_LOCK_TIMEOUT"


class ForkedProcess:
    """A forked process with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self, work: Callable[[], int], variables: Mapping[str, str], cwd: Path, output: Path
    ) -> None:
        """Fork the process. It writes to the files `out` and `err` in the folder `output`."""
        arguments = (work, {**variables}, str(cwd), str(output))
        self._process = CONTEXT.Process(target=_run, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        assert code is not None, f"the process still runs after {timeout} s"
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def serve_test_app(data: Path) -> int:
    """Serve the test app in place of the app that is loaded."""
    for modules in (JacRuntime.loaded_modules, sys.modules):
        modules.pop("contextrender", None)
    return serve("127.0.0.1", 0, data, app=Path(__file__).with_name("app"))


def _run(work: Callable[[], int], variables: dict[str, str], cwd: str, output: str) -> None:
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(cwd)
    for name, number in (("out", 1), ("err", 2)):
        file = os.open(Path(output, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    if LOCK_TIMEOUT in variables:  # which SQLite's store does not read
        sqlite.LOCK_TIMEOUT_SECONDS = float(variables[LOCK_TIMEOUT])
    settings.forget_settings()
    sys.exit(work())

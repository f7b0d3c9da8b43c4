"""The supervisor replaces and ends real worker processes."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SCRIPT = """
import os, select, signal, sys
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.workers import supervisor
supervisor.RESTART_SECONDS = 0.0
supervisor.CHECK_SECONDS = 0.1
supervisor.STUCK_CHECKS = {looks}

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def work(seat):
    {first}
    signal.signal(signal.SIGTERM, lambda *_: (say("ended", seat.number), os._exit(0)))
    say("worker", seat.number, os.getpid())
    seat.tell_ready()
    while not select.select([seat.alive], [], [], 0.01)[0]:
        seat.beat()
    say("alone", seat.number)
    return 0

made = supervisor.Supervisor(
    {count}, work, ready=lambda: say("ready"), on_end=lambda pid: say("gone", pid)
)
sys.exit(made.run())
"""


class Running:
    def __init__(self, process: "subprocess.Popen[str]", count: int) -> None:
        self.process = process
        self.count = count

    def lines(self, count: int) -> list[list[str]]:
        assert self.process.stdout is not None
        return [self.process.stdout.readline().split() for _ in range(count)]

    def wait_for_workers(self) -> dict[str, int]:
        """Return the workers' process ids by number, once all serve."""
        lines_read = self.lines(self.count + 1)
        assert ["ready"] in lines_read
        return {line[1]: int(line[2]) for line in lines_read if line[0] == "worker"}


@contextmanager
def running(first: str = "pass", looks: int = 600, count: int = 2) -> Iterator[Running]:
    script = textwrap.dedent(SCRIPT).format(first=first, looks=looks, count=count)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield Running(process, count)
        process.kill()


@pytest.mark.parametrize("count", [1, 2])
def test_stuck_worker_is_replaced(count: int) -> None:
    last = str(count - 1)
    with running(looks=20, count=count) as supervisor:
        workers = supervisor.wait_for_workers()
        os.kill(workers[last], signal.SIGSTOP)
        ended, new = supervisor.lines(2)
        assert ended == ["gone", str(workers[last])]
        assert new[:2] == ["worker", last]
        supervisor.process.send_signal(signal.SIGTERM)
        _, error_output = supervisor.process.communicate(timeout=30)
        assert f"contextrender: worker {last} is stuck and killed." in error_output


def test_stop_status_of_a_worker_ends_supervisor() -> None:
    with running("os._exit(supervisor.STOP)") as supervisor:
        assert supervisor.process.wait(30) == 0


def test_signal_ends_all_workers_cleanly() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with running() as supervisor:
            workers = supervisor.wait_for_workers()
            supervisor.process.send_signal(number)
            lines = supervisor.lines(4)
            assert {tuple(line) for line in lines} >= {("ended", "0"), ("ended", "1")}
            assert supervisor.process.wait(30) == 0
            assert not any(Path(f"/proc/{pid}").exists() for pid in workers.values())


def test_workers_end_when_supervisor_is_killed() -> None:
    with running() as supervisor:
        supervisor.wait_for_workers()
        supervisor.process.kill()
        assert sorted(supervisor.lines(2)) == [["alone", "0"], ["alone", "1"]]


def test_failed_first_start_ends_supervisor_with_reason() -> None:
    with running("raise CommandError('there is no store.')") as supervisor:
        _, error_output = supervisor.process.communicate(timeout=30)
        assert supervisor.process.returncode == 1
        assert "contextrender: there is no store." in error_output

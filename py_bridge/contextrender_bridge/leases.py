"""Leases of the shared server: a folder for each process that uses it.

The folder's name is the process's id and start time. A killed process does not remove its folder.
The start time distinguishes it from a later process of the same id, so the next check removes it.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER = "leases"


def started_at(pid: int) -> str:
    """Return the start time of a process as the system writes it; empty if it does not run.

    Read it from `/proc`, or call `ps` on systems without `/proc`.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        has_proc = Path("/proc/self/stat").exists()
        return "" if has_proc else _start_by_ps(pid)
    except OSError:
        return ""
    # Of the fields after the name, the first is the state, and the 20th the start time (proc(5)).
    # The name is in parentheses, because it may have spaces.
    fields = text.rpartition(")")[2].split()
    is_zombie_or_dead = fields[0] in ("Z", "X")
    return "" if is_zombie_or_dead else fields[19]


@contextmanager
def hold_lease(data: Path, pid: int) -> Iterator[Path]:
    """Hold a lease for a process during the block.

    Create and yield the lease's folder, and remove it after the block.
    """
    lease = data / FOLDER / f"{pid}-{started_at(pid)}"
    lease.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        yield lease
    finally:
        _remove(lease)


def any_alive(data: Path) -> bool:
    """Return whether some process holds a lease; remove the leases of dead processes."""
    is_alive = False
    with suppress(OSError):  # There is no folder until a process has held a lease.
        for lease in list((data / FOLDER).iterdir()):
            # Another process may have the id now. Then its start time differs.
            pid, _, start = lease.name.partition("-")
            if pid.isdecimal() and start and started_at(int(pid)) == start:
                is_alive = True
            else:
                _remove(lease)
    return is_alive


def _remove(lease: Path) -> None:
    """Remove a lease's folder and its files. Ignore failures."""
    with suppress(OSError):
        for file in lease.iterdir():
            file.unlink()
        lease.rmdir()


def _start_by_ps(pid: int) -> str:
    """Return a process's start time as the command `ps` writes it; empty if it has ended.

    Keep only letters and digits, because the time is a part of a folder's name.
    """
    process = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return "".join(character for character in process.stdout if character.isalnum())

"""A small real disk, to fill and to make read-only."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Disk:
    """A mounted tmpfs."""

    folder: Path

    def fill(self) -> None:
        """Leaves no page free."""
        with (self.folder / "ballast").open("ab", buffering=0) as file:
            for size in (2**20, 2**12, 1):
                try:
                    while True:
                        file.write(b"\1" * size)
                except OSError:
                    continue

    def empty(self) -> None:
        """Gives the room back."""
        (self.folder / "ballast").unlink()

    def remount(self, how: str) -> None:
        """As `ro` or `rw`."""
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.folder)], check=True)


@contextmanager
def mounted(folder: Path, megabytes: int) -> Iterator[Disk]:
    """A disk of that size for the block; skips the test where mounting is not allowed."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if made.returncode:
        pytest.skip(f"mounting is not allowed here (uid {os.geteuid()}): {made.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)

"""Running a runtime's commands."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

Done = subprocess.CompletedProcess[str]

SECONDS = 300
UNCHANGED = "history sent unchanged"
"""What adapters log when a model call gets the whole history because something failed."""


def run(
    command: Sequence[object],
    environment: Mapping[str, str],
    folder: Path | None = None,
    *,
    typed: str = "",
    fails: bool = False,
    seconds: float = SECONDS,
) -> Done:
    """A command that ends well, unless it `fails`; `typed` is its standard input."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done

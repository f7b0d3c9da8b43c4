"""Runs the commands of a runtime."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

CommandResult = subprocess.CompletedProcess[str]

SECONDS = 300
UNCHANGED = "history sent unchanged"
"""The text that adapters log when a model call fails open."""


def run(
    command: Sequence[object],
    environment: Mapping[str, str],
    folder: Path | None = None,
    *,
    stdin: str = "",
    fails: bool = False,
    seconds: float = SECONDS,
) -> CommandResult:
    """Run a command with `stdin` as its standard input, and return its result.

    Check that the command succeeds, or with `fails` that it does not.
    """
    process = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert (process.returncode != 0) == fails, process.stdout + process.stderr
    return process

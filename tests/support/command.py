"""`contextrender` run in this process, because starting a process takes seconds."""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from contextrender_bridge.base import settings
from contextrender_bridge.cli import main

PROCESS = [
    *(sys.executable, "-c"),
    "import sys; from contextrender_bridge.cli import main; sys.exit(main())",
]
"""The command line of `contextrender` as a separate process."""


def contextrender(
    *words: str | Path, input: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command and return its output and exit code. `environment` replaces all variables, if
    given."""
    out, err = StringIO(), StringIO()
    variables = dict(os.environ) if environment is None else environment
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name in os.environ.keys() - variables.keys():
            patch.delenv(name)
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdin", StringIO(input))
        settings.forget_settings()
        try:
            status = main([str(word) for word in words])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    settings.forget_settings()
    return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())


def printed(*words: str | Path, status: int = 0) -> str:
    """Run a command and return its output, or its errors if `status` is not 0."""
    process = contextrender(*words)
    assert process.returncode == status, process.stderr
    return process.stderr if status else process.stdout

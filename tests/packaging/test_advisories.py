"""`make advisories` says what it found, and what it could not ask. Both programs are doubles."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.server.servers import REPOSITORY

CLEAN = "exit 0"
NOT_ASKED = "echo 'a: Dependency not found on PyPI and could not be audited: a (1)'; exit 1"
FOUND = "echo 'Found 1 known vulnerability in 1 package'; exit 1"
NPM_NOT_ASKED = "echo 'npm error audit endpoint returned an error'; exit 1"
NPM_FOUND = "echo '1 high severity vulnerability'; exit 1"


@pytest.mark.parametrize(
    ("uv", "npm", "status", "told"),
    [
        (CLEAN, CLEAN, 0, ["no known advisory"]),
        (FOUND, CLEAN, 1, ["Found 1 known vulnerability"]),
        (CLEAN, NPM_FOUND, 1, ["1 high severity vulnerability"]),
        (
            NOT_ASKED,
            NPM_NOT_ASKED,
            2,
            ["PyPI's advisories cannot be", "npm's advisories cannot be"],
        ),
        (FOUND, NPM_NOT_ASKED, 2, ["Found 1 known vulnerability", "npm's advisories cannot be"]),
    ],
)
def test_advisories(tmp_path: Path, uv: str, npm: str, status: int, told: list[str]) -> None:
    for name, script in (("uv", uv), ("npm", npm)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    done = subprocess.run(
        [REPOSITORY / ".ci" / "advisories", tmp_path],
        cwd=REPOSITORY,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    assert done.returncode == status, said
    assert all(one in said for one in told), said

"""The container image's file and the systemd unit, as their own tools read them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.server.servers import REPOSITORY

DEPLOY = REPOSITORY / "deploy"


def test_the_dockerfile_is_linted() -> None:
    hadolint = _program("hadolint")
    done = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_image_is_not_run_as_root_and_says_whether_it_works() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("FROM"))
    assert any(line.startswith("USER 10001") for line in lines[last:])
    assert any(line.startswith("HEALTHCHECK") for line in lines[last:])


def test_the_unit_is_one(tmp_path: Path) -> None:
    verify = _program("systemd-analyze")
    unit = tmp_path / "contextrender.service"
    text = (DEPLOY / "contextrender.service").read_text()
    # The program is where its user has installed it.
    unit.write_text(text.replace("%h/.local/bin/contextrender", shutil.which("true") or ""))
    done = subprocess.run([verify, "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(REPOSITORY / ".venv" / "bin"))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found

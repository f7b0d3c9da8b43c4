"""Runtimes at pinned versions, each in a folder of its own in a cache; made once, then reused.

Beside an adapter's test, `requirements.txt` (Python) or `package.json` (Node) says what it needs.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

ADAPTERS = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("RUNTIMES_CACHE") or "~/.cache/contextrender-runtimes").expanduser()
SECONDS = 900
STAMP = "installed"
PYTHON = "3.12"


def python_of(name: str, root: Path = ADAPTERS) -> Path:
    """A Python with the packages of `adapters/NAME/requirements.txt`, or the test is skipped."""
    wanted = root / name / "requirements.txt"
    home = CACHE / name.replace("/", "-")
    python = home / "bin" / "python"

    def install() -> None:
        uv = [sys.executable, "-m", "uv"]
        _run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)])
        packages = ["--python", str(python), "--requirement", str(wanted)]
        _run([*uv, "pip", "install", "--quiet", *packages])

    _once(home, [wanted], install)
    return python


def node_modules_of(name: str, root: Path = ADAPTERS) -> Path:
    """The `node_modules` of `adapters/NAME/package.json`, or the test is skipped."""
    wanted = [root / name / "package.json", root / name / "package-lock.json"]
    home = CACHE / name.replace("/", "-")

    def install() -> None:
        if not shutil.which("npm"):
            pytest.skip("npm is not installed")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        for path in wanted:
            shutil.copy(path, home)
        _run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], home)

    _once(home, wanted, install)
    return home / "node_modules"


def environment(**variables: str) -> dict[str, str]:
    """This process's, with the bridge on Python's path, and no key or proxy of the user's."""
    left_out = ("OPENAI_", "ANTHROPIC_", "CONTEXTRENDER_", "PYTHON", "VIRTUAL_ENV", "PYTEST")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, "PYTHONPATH": str(ADAPTERS.parent / "py_bridge"), **variables}


def _once(home: Path, wanted: list[Path], install: Callable[[], None]) -> None:
    """Installs unless that was done; tests that run side by side wait for one another."""
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp, digest = home / STAMP, _digest(wanted)
    with FileLock(CACHE / f"{home.name}.lock"):
        if not stamp.is_file() or stamp.read_text() != digest:
            install()
            stamp.write_text(digest)


def _digest(wanted: list[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in wanted)).hexdigest()


def _run(command: list[str], folder: Path | None = None) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{Path(command[0]).name} took over {SECONDS} s to install")
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        pytest.skip(f"it cannot be installed: {' '.join(reason[-3:])}")

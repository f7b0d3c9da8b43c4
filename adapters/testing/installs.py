"""Runtimes at pinned versions, each in a folder of its own in a cache; made once, then reused.

Beside an adapter's test, `requirements.txt` (Python) or `package.json` (Node) says what it needs.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ADAPTERS = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("RUNTIMES_CACHE") or "~/.cache/contextrender-runtimes").expanduser()
SECONDS = 900
STAMP = "installed"
PYTHON = "3.12"


def python_of(name: str, root: Path = ADAPTERS) -> Path:
    """A Python with the packages of `adapters/NAME/requirements.txt`, or the test is skipped."""
    wanted = root / name / "requirements.txt"
    home = CACHE / name.replace("/", "-")
    if _is_fresh(home, [wanted]):
        return home / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    _run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)])
    python = home / "bin" / "python"
    _run([*uv, "pip", "install", "--quiet", "--python", str(python), "--requirement", str(wanted)])
    _stamp(home, [wanted])
    return python


def node_modules_of(name: str, root: Path = ADAPTERS) -> Path:
    """The `node_modules` of `adapters/NAME/package.json`, or the test is skipped."""
    source = root / name
    wanted = [source / "package.json", source / "package-lock.json"]
    home = CACHE / name.replace("/", "-")
    if not _is_fresh(home, wanted):
        if not shutil.which("npm"):
            pytest.skip("npm is not installed")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for path in wanted:
            shutil.copy(path, home)
        _run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], home)
        _stamp(home, wanted)
    return home / "node_modules"


def environment(**variables: str) -> dict[str, str]:
    """This process's, with the bridge on Python's path, and no key or proxy of the user's."""
    left_out = ("OPENAI_", "ANTHROPIC_", "CONTEXTRENDER_", "PYTHON", "VIRTUAL_ENV", "PYTEST")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, "PYTHONPATH": str(ADAPTERS.parent / "py_bridge"), **variables}


def _is_fresh(home: Path, wanted: list[Path]) -> bool:
    stamp = home / STAMP
    return stamp.is_file() and stamp.read_text() == _digest(wanted)


def _stamp(home: Path, wanted: list[Path]) -> None:
    (home / STAMP).write_text(_digest(wanted))


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

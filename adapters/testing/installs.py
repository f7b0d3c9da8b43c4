"""Runtimes at pinned versions, each in its own folder of a cache, installed once and then reused.

`requirements.txt` (Python) or `package.json` (Node) beside an adapter's test lists its packages.
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
BRIDGE = {"PYTHONPATH": str(ADAPTERS.parent / "py_bridge")}
"""The variables with which a runtime's Python finds the bridge of this repository."""


def python_of(name: str, root: Path = ADAPTERS) -> Path:
    """Return a Python with the packages of `adapters/NAME/requirements.txt`, or skip the test."""
    manifest = root / name / "requirements.txt"
    home = CACHE / name.replace("/", "-")
    python = home / "bin" / "python"

    def install() -> None:
        uv = [sys.executable, "-m", "uv"]
        _run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(home)])
        packages = ["--python", str(python), "--requirement", str(manifest)]
        _run([*uv, "pip", "install", "--quiet", *packages])

    _once(home, [manifest], install)
    return python


def node_modules_of(name: str, root: Path = ADAPTERS) -> Path:
    """Return the `node_modules` of `adapters/NAME/package.json`, or skip the test."""
    manifests = [root / name / "package.json", root / name / "package-lock.json"]
    home = CACHE / name.replace("/", "-")

    def install() -> None:
        if not shutil.which("npm"):
            pytest.skip("npm is not installed")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        for path in manifests:
            shutil.copy(path, home)
        _run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], home)

    _once(home, manifests, install)
    return home / "node_modules"


def environment(**variables: str) -> dict[str, str]:
    """Return this process's environment with the bridge on Python's path and without keys."""
    prefixes = ("OPENAI_", "ANTHROPIC_", "CONTEXTRENDER_", "PYTHON", "VIRTUAL_ENV", "PYTEST")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(prefixes)
    }
    return {**environment, **BRIDGE, **variables}


def _once(home: Path, manifests: list[Path], install: Callable[[], None]) -> None:
    """Install a runtime if it is not installed yet. Parallel tests wait for one another."""
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp, digest = home / STAMP, _digest(manifests)
    with FileLock(CACHE / f"{home.name}.lock"):
        if not stamp.is_file() or stamp.read_text() != digest:
            install()
            stamp.write_text(digest)


def _digest(manifests: list[Path]) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in manifests)).hexdigest()


def _run(command: list[str], folder: Path | None = None) -> None:
    try:
        process = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{Path(command[0]).name} took over {SECONDS} s to install")
    if process.returncode:
        reason = (
            process.stderr.strip() or process.stdout.strip() or "no reason given"
        ).splitlines()
        pytest.skip(f"it cannot be installed: {' '.join(reason[-3:])}")

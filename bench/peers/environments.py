"""Virtual environments of the peers' own, made once from pinned versions."""

import hashlib
import subprocess
import sys
from pathlib import Path

from bench.peers.catalogue import COUNTING, Peer

STAMP = "installed"
SECONDS = 900


class Unavailable(Exception):
    """Why a peer cannot take part."""


def python_of(peer: Peer, folder: Path) -> Path:
    """The peer's Python, installing it first where it is not. Raises Unavailable."""
    home = folder / peer.environment
    python: Path = home / "bin" / "python"
    stamp = home / STAMP
    wanted = hashlib.sha256(" ".join([*peer.requirements, *COUNTING]).encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    print(f"Installing {', '.join(peer.requirements) or 'a counter'} ...", file=sys.stderr)
    _run([sys.executable, "-m", "venv", "--clear", str(home)])
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, *peer.requirements, *COUNTING])
    stamp.write_text(wanted)
    return python


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"it could not be installed: {error}") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = (errors or done.stderr.splitlines() or ["no reason given"])[0]
        raise Unavailable(f"it could not be installed: {reason}")

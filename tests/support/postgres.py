"""A PostgreSQL cluster of the tests' own, in a temporary folder, where the package is there."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ACCOUNT = "postgres"


def missing() -> str | None:
    """Why there cannot be one, if so."""
    if _programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(ACCOUNT)
        except KeyError:
            return f"PostgreSQL refuses to run as root, and there is no user {ACCOUNT!r}"
    return None


@contextmanager
def cluster() -> Iterator[str]:
    """The address of an empty database, until the block ends."""
    programs = _programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="cr-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, ACCOUNT)
    data = folder / "data"
    options = f"-k {folder} -c listen_addresses= -c fsync=off"
    try:
        _run(programs / "initdb", "-D", str(data), "-A", "trust", "-U", ACCOUNT, "-N")
        _run(
            programs / "pg_ctl",
            "-D",
            str(data),
            "-o",
            options,
            "-l",
            str(folder / "log"),
            "-w",
            "start",
        )
        try:
            yield f"postgresql://{ACCOUNT}@/postgres?host={folder}"
        finally:
            _run(programs / "pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    return Path(path).parent if path else None


def _run(program: Path, *arguments: str) -> None:
    user = ACCOUNT if os.geteuid() == 0 else None
    subprocess.run(
        [program, *arguments],
        user=user,
        check=True,
        stdout=subprocess.DEVNULL,
        cwd="/",
        timeout=120,
    )

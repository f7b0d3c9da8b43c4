"""A PostgreSQL cluster of the tests' own, in a temporary folder, where the package is there."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg

ACCOUNT = "postgres"


def missing() -> str | None:
    """Why there cannot be one, if so."""
    if programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(ACCOUNT)
        except KeyError:
            return f"PostgreSQL refuses to run as root, and there is no user {ACCOUNT!r}"
    return None


@dataclass
class Cluster:
    """One of a test's own; `address` names its empty database."""

    folder: Path
    sync: str = "off"

    @property
    def address(self) -> str:
        return f"postgresql://{ACCOUNT}@/postgres?host={self.folder}"

    @classmethod
    @contextmanager
    def running(cls, sync: str = "off") -> Iterator["Cluster"]:
        with cls.empty(sync) as made:
            run_program("initdb", "-D", made._data, "-A", "trust", "-U", ACCOUNT, "-N")
            made.start()
            yield made

    @classmethod
    @contextmanager
    def empty(cls, sync: str = "off") -> Iterator["Cluster"]:
        """The folder for one, until the block ends; what was started in it is stopped."""
        made = cls(Path(tempfile.mkdtemp(prefix="cr-pg-")), sync)
        if os.geteuid() == 0:
            shutil.chown(made.folder, ACCOUNT)
        try:
            yield made
        finally:
            with suppress(subprocess.CalledProcessError):  # it may have been stopped
                made.stop()
            shutil.rmtree(made.folder, ignore_errors=True)

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses= -c fsync={self.sync}"
        log = str(self.folder / "log")
        run_program("pg_ctl", "-D", self._data, "-o", options, "-l", log, "-w", "start")

    def stop(self) -> None:
        """As if its machine lost power."""
        run_program("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")

    @property
    def _data(self) -> str:
        return str(self.folder / "data")


def new_database(address: str) -> str:
    name = f"test_{uuid4().hex}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return address.replace("/postgres?", f"/{name}?")


def programs() -> Path | None:
    """The folder of PostgreSQL's own, if it is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    return Path(path).parent if path else None


def run_program(program: str, *arguments: str) -> None:
    """One of PostgreSQL's own, as the account that it accepts. Raises CalledProcessError."""
    folder = programs()
    assert folder is not None
    subprocess.run(
        [folder / program, *arguments],
        user=ACCOUNT if os.geteuid() == 0 else None,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        timeout=120,
    )

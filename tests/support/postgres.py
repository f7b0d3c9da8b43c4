"""A temporary PostgreSQL cluster for the tests, if PostgreSQL is installed."""

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


def find_missing_part() -> str | None:
    """Return why a cluster cannot be started; None if it can."""
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
    """A cluster of a test; `address` names its empty database."""

    folder: Path
    sync: str = "off"

    @property
    def address(self) -> str:
        return f"postgresql://{ACCOUNT}@/postgres?host={self.folder}"

    @classmethod
    @contextmanager
    def running(cls, sync: str = "off") -> Iterator["Cluster"]:
        with cls.empty(sync) as new_cluster:
            run_program("initdb", "-D", new_cluster._data, "-A", "trust", "-U", ACCOUNT, "-N")
            new_cluster.start()
            yield new_cluster

    @classmethod
    @contextmanager
    def empty(cls, sync: str = "off") -> Iterator["Cluster"]:
        """Create the folder of a cluster until the block ends; stop a cluster that was started in
        it."""
        new_cluster = cls(Path(tempfile.mkdtemp(prefix="cr-pg-")), sync)
        if os.geteuid() == 0:
            shutil.chown(new_cluster.folder, ACCOUNT)
        try:
            yield new_cluster
        finally:
            with suppress(subprocess.CalledProcessError):  # it may have been stopped
                new_cluster.stop()
            shutil.rmtree(new_cluster.folder, ignore_errors=True)

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses= -c fsync={self.sync}"
        log = str(self.folder / "log")
        run_program("pg_ctl", "-D", self._data, "-o", options, "-l", log, "-w", "start")

    def stop(self) -> None:
        """Stop the cluster as a power loss would."""
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
    """Return the folder of PostgreSQL's programs, if it is installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if folders:
        return folders[-1].parent
    path = shutil.which("initdb")
    return Path(path).parent if path else None


def run_program(program: str, *arguments: str) -> None:
    """Run a program of PostgreSQL as an account that it accepts. Raise CalledProcessError."""
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

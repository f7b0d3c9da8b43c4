"""A primary and its synchronous standby, as PostgreSQL's own programs make them; and PgBouncer."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg

from tests.support.postgres import ACCOUNT, Cluster, run_program
from tests.support.waiting import until

PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")


class Pair:
    """Two clusters that follow each other; `address` names both."""

    def __init__(self, stack: ExitStack) -> None:
        """Starts both, the second as the first's standby."""
        self.primary = stack.enter_context(Cluster.running())
        self.standby = stack.enter_context(Cluster.empty())
        self._follow()

    @property
    def address(self) -> str:
        """Of both, in the order that they have now."""
        hosts = f"{self.primary.folder},{self.standby.folder}"
        return f"postgresql://{ACCOUNT}@/postgres?host={hosts}"

    def kill_primary(self) -> None:
        """Kill -9, so that nothing is said to anyone."""
        data = self.primary.folder / "data"
        parent = (data / "postmaster.pid").read_text().splitlines()[0]
        kill_postmaster(data)
        # It starts again only once its number is nobody's, a remnant's neither.
        until(lambda: not Path(f"/proc/{parent}").exists())

    def promote(self) -> None:
        """The standby becomes the primary."""
        run_program("pg_ctl", "-D", str(self.standby.folder / "data"), "-w", "promote")
        self.primary, self.standby = self.standby, self.primary

    def rejoin(self) -> None:
        """What was the primary becomes the standby, from nothing."""
        shutil.rmtree(self.standby.folder / "data")
        self._follow()

    def _follow(self) -> None:
        source = ["-h", str(self.primary.folder), "-U", ACCOUNT]
        target = self.standby.folder / "data"
        run_program("pg_basebackup", *source, "-D", str(target), "-R", "-c", "fast")
        with (target / "postgresql.auto.conf").open("a") as settings:
            settings.write("synchronous_standby_names = ''\n")
        self.standby.start()
        with psycopg.connect(self.primary.address, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            state = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
            until(lambda: connection.execute(state).fetchone() is not None)


@contextmanager
def pair() -> Iterator[Pair]:
    """A new one, until the block ends."""
    with ExitStack() as stack:
        yield Pair(stack)


@contextmanager
def pooled(cluster: Cluster) -> Iterator[str]:
    """The address of a PgBouncer in transaction mode, before two connections to the cluster."""
    folder = cluster.folder / "pool"
    folder.mkdir()
    conf = folder / "pgbouncer.ini"
    conf.write_text(
        f"[databases]\npostgres = host={cluster.folder} user={ACCOUNT}\n"
        f"[pgbouncer]\nunix_socket_dir = {folder}\n"
        f"listen_port = 5432\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n"
        f"logfile = {folder}/log\n"
    )
    conf.with_name("users").touch()
    as_root = os.geteuid() == 0
    if as_root:
        shutil.chown(folder, ACCOUNT)
    process = subprocess.Popen([str(PGBOUNCER), "-q", conf], user=ACCOUNT if as_root else None)
    try:
        until(lambda: (folder / ".s.PGSQL.5432").exists())
        yield f"postgresql://{ACCOUNT}@/postgres?host={folder}"
    finally:
        process.terminate()
        process.wait()


def kill_postmaster(data: Path) -> None:
    """The PostgreSQL of a data folder and all its processes, by kill -9."""
    try:
        parent = (data / "postmaster.pid").read_text().splitlines()[0]
    except FileNotFoundError:
        return
    found = subprocess.run(["pgrep", "-P", parent], capture_output=True, text=True)
    for process in (parent, *found.stdout.split()):
        with suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)
    until(lambda: not is_running(parent))


def is_running(process: str) -> bool:
    """Whether it is there and is more than a remnant that nobody has waited for."""
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False

"""The primary is killed with -9 under load; the service continues with the synchronous standby.

`FAILOVER_ROUNDS` sets the number of rounds (default 1).
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.store.postgres import PostgresStore
from contextrender_bridge.store.writes import StoreUnavailable

from tests.graph.store.test_postgres import unit
from tests.server.servers import running_server
from tests.support.persistent_agents import agents_at_work
from tests.support.postgres import ACCOUNT, Cluster, find_missing_part, run_program
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_missing_part() is not None, reason=find_missing_part() or ""),
]

PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")
ROUNDS = int(os.environ.get("FAILOVER_ROUNDS", "1"))
ROUNDS_A_PAIR = 25
"""Rounds per pair and server: the agents' histories grow, and each ends with a complete check."""


class Pair:
    """A primary and a standby cluster; `address` names both."""

    def __init__(self, stack: ExitStack) -> None:
        self.primary = stack.enter_context(Cluster.running())
        self.standby = stack.enter_context(Cluster.empty())
        self._follow()

    @property
    def address(self) -> str:
        hosts = f"{self.primary.folder},{self.standby.folder}"
        return f"postgresql://{ACCOUNT}@/postgres?host={hosts}"

    def kill_primary(self) -> None:
        """Kill the primary and all its processes with -9, so that it notifies nobody."""
        lock = self.primary.folder / "data" / "postmaster.pid"
        parent = lock.read_text().splitlines()[0]
        children = subprocess.run(["pgrep", "-P", parent], capture_output=True, text=True)
        processes = [parent, *children.stdout.split()]
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        wait_until(lambda: all(_has_ended(process) for process in processes))
        # They forbid a start while the process id is used, and some systems free it seconds later.
        for file in (lock, self.primary.folder / ".s.PGSQL.5432.lock"):
            file.unlink()

    def promote(self) -> None:
        run_program("pg_ctl", "-D", str(self.standby.folder / "data"), "-w", "promote")
        self.primary, self.standby = self.standby, self.primary

    def rejoin(self) -> None:
        shutil.rmtree(self.standby.folder / "data")
        self._follow()

    def _follow(self) -> None:
        source = ["-h", str(self.primary.folder), "-U", ACCOUNT]
        target = self.standby.folder / "data"
        options = ["-R", "-c", "fast", "--no-sync"]
        run_program("pg_basebackup", *source, "-D", str(target), *options)
        with (target / "postgresql.auto.conf").open("a") as settings:
            settings.write("synchronous_standby_names = ''\n")
        self.standby.start()
        with psycopg.connect(self.primary.address, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            state = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
            wait_until(lambda: connection.execute(state).fetchone() is not None)


def _has_ended(process: str) -> bool:
    """Return whether a process has ended, even if its parent has not waited for it yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(stack)


@pytest.mark.parametrize(
    "rounds", [min(ROUNDS - first, ROUNDS_A_PAIR) for first in range(0, ROUNDS, ROUNDS_A_PAIR)]
)
def test_killed_primary_loses_nothing_acknowledged(pair: Pair, tmp_path: Path, rounds: int) -> None:
    with (
        running_server(tmp_path / "data", CONTEXTRENDER_DATABASE=pair.address) as server,
        agents_at_work(server) as go_on,
    ):
        for _ in range(rounds):
            go_on()
            pair.kill_primary()
            pair.promote()
            go_on()
            pair.rejoin()


def test_old_primary_alone_acknowledges_nothing(pair: Pair) -> None:
    pair.kill_primary()
    pair.promote()
    old = pair.standby
    old.start()
    store = None
    with pytest.raises(StoreUnavailable):
        store = PostgresStore(old.address, Settings(database_statement_timeout=0.5))
        store.write(unit(store))
    if store is not None:
        store.close()
    new = PostgresStore(pair.primary.address, Settings())
    new.write(unit(new))
    new.close()


@pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")
def test_service_works_behind_transaction_pooler(tmp_path: Path) -> None:
    with (
        Cluster.running() as cluster,
        run_pooler(cluster) as address,
        running_server(tmp_path / "data", CONTEXTRENDER_DATABASE=address) as server,
        agents_at_work(server) as go_on,
    ):
        go_on()


@contextmanager
def run_pooler(cluster: Cluster) -> Iterator[str]:
    """Run PgBouncer in transaction mode with two connections to the cluster; yield its address."""
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
        wait_until(lambda: (folder / ".s.PGSQL.5432").exists())
        yield f"postgresql://{ACCOUNT}@/postgres?host={folder}"
    finally:
        process.terminate()
        process.wait()

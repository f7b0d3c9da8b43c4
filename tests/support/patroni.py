"""Two members of a PostgreSQL cluster that Patroni keeps going, with an etcd of their own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from tests.support import postgres
from tests.support.postgres import ACCOUNT
from tests.support.replicated import kill_postmaster
from tests.support.waiting import until

TTL_SECONDS: Final = 20
"""The least that Patroni takes: so long a dead leader is waited for."""
SAID: Final = 25
DYNAMIC: Final = {
    "ttl": TTL_SECONDS,
    "loop_wait": 1,
    "retry_timeout": 3,
    "synchronous_mode": True,
    "postgresql": {
        "use_pg_rewind": True,
        "parameters": {"fsync": "off", "wal_log_hints": "on", "max_connections": 50},
    },
}


def missing() -> str | None:
    """Why there cannot be one, if so."""
    if (reason := postgres.missing()) is not None:
        return reason
    if shutil.which("patroni", path="/usr/bin") and shutil.which("etcd"):
        return None
    return "Patroni is not installed (Debian: apt-get install patroni etcd-server)"


@dataclass
class Member:
    """One PostgreSQL and the Patroni that looks after it."""

    folder: Path
    name: str
    etcd: int
    port: int = field(default_factory=lambda: free_port())
    api: int = field(default_factory=lambda: free_port())
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns at once; it joins by itself."""
        conf = self.folder / f"{self.name}.json"
        conf.write_text(json.dumps(self._settings()))
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["/usr/bin/patroni", conf], stdout=log, stderr=log, cwd="/", user=account()
            )

    def kill(self) -> None:
        """Kill -9, all of it: as if its machine lost power."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        kill_postmaster(self._data)

    def leads(self) -> bool:
        """Whether its PostgreSQL takes writes, by its own Patroni."""
        return self._is("primary")

    def may_lead(self) -> bool:
        """Whether it would be promoted: only a standby that is noted in etcd as synchronous is.

        Patroni notes that seconds after PostgreSQL itself says that the standby is synchronous.
        """
        return self._is("synchronous")

    def _is(self, role: str) -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{self.api}/{role}").status_code == 200
        return False

    def says(self) -> str:
        """The last lines that its Patroni has logged."""
        lines = (self.folder / f"{self.name}.log").read_text(errors="replace").splitlines()
        return "\n".join([f"{self.name} (port {self.port}):", *lines[-SAID:]])

    @property
    def _data(self) -> Path:
        return self.folder / self.name

    def _settings(self) -> dict[str, object]:
        """Patroni reads YAML, which JSON is."""
        trust = ["local all all trust", "host all all 127.0.0.1/32 trust"]
        return {
            "scope": "contextrender",
            "name": self.name,
            "restapi": here(self.api),
            "etcd3": {"host": f"127.0.0.1:{self.etcd}"},
            "bootstrap": {
                "dcs": DYNAMIC,
                "initdb": [{"auth": "trust"}, "no-sync", {"encoding": "UTF8"}],
            },
            "postgresql": {
                **here(self.port),
                "data_dir": str(self._data),
                "pgpass": f"{self._data}.pgpass",
                "bin_dir": str(postgres.programs()),
                "pg_hba": [*trust, "host replication all 127.0.0.1/32 trust"],
                "authentication": {
                    "superuser": {"username": ACCOUNT},
                    "replication": {"username": "replicator"},
                },
                "parameters": {"unix_socket_directories": str(self.folder)},
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
            },
        }


@dataclass
class Kept:
    """Both members."""

    members: list[Member]

    @property
    def address(self) -> str:
        """Of both, in no order that says who leads."""
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        return f"postgresql://{ACCOUNT}@{hosts}/postgres"

    @property
    def leader(self) -> Member | None:
        """Who takes writes now."""
        return next((member for member in self.members if member.leads()), None)

    def says(self) -> str:
        """What both members did last: why nobody leads."""
        return "\n".join(member.says() for member in self.members)

    def wait_for_both(self) -> None:
        """Until one leads and the other confirms what it writes, and would be promoted."""
        until(lambda: self.leader is not None, why=self.says, seconds=300)
        until(lambda: any(one.may_lead() for one in self.members), why=self.says, seconds=300)


@contextmanager
def kept_going() -> Iterator[Kept]:
    """A new cluster, until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="cr-patroni-"))
    if os.geteuid() == 0:
        shutil.chown(folder, ACCOUNT)
    client, peer = free_port(), free_port()
    # It is the only one, and what it knows ends with it.
    urls = {
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
    }
    words = [f"--{name}=http://127.0.0.1:{port}" for name, port in urls.items()]
    alone = f"--initial-cluster=default=http://127.0.0.1:{peer}"
    with (folder / "etcd.log").open("wb") as log:
        etcd = subprocess.Popen(
            ["etcd", "--data-dir", folder / "etcd", *words, alone],
            stdout=log,
            stderr=log,
            user=account(),
        )
    made = Kept([Member(folder, name, client) for name in ("one", "other")])
    try:
        for member in made.members:
            member.start()
        made.wait_for_both()
        yield made
    finally:
        for member in made.members:
            member.kill()
        etcd.send_signal(signal.SIGKILL)
        etcd.wait()
        shutil.rmtree(folder, ignore_errors=True)


def here(port: int) -> dict[str, str]:
    """Where it listens, and where others find it."""
    return {"listen": f"127.0.0.1:{port}", "connect_address": f"127.0.0.1:{port}"}


def free_port() -> int:
    """One that nothing listens on now."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def account() -> str | None:
    """The user to start as: PostgreSQL and Patroni refuse root."""
    return ACCOUNT if os.geteuid() == 0 else None

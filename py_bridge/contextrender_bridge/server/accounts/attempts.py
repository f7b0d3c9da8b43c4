"""Limits failures: after so many for a name or an address, it must wait."""

import ipaddress
import time
from collections.abc import Callable
from math import ceil
from sqlite3 import Connection

from contextrender_bridge.server.accounts.counting import Counts

MOST = 10
SECONDS = 300.0
REMEMBERED = 10_000
"""Failures kept; the oldest are forgotten first."""


class Attempts:
    """Failures of the last while, in whichever process of the data folder."""

    def __init__(
        self,
        counts: Counts,
        most: int = MOST,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`most` failures within `seconds`, for each key."""
        self._counts = counts
        self._most = most
        self._seconds = seconds
        self._clock = clock

    def begin(self, *keys: str) -> int:
        """0, and the attempt counts as failed until it is forgiven; or the seconds to wait."""
        now = self._clock()
        with self._counts.changing() as file:
            file.execute("DELETE FROM failures WHERE at <= ?", (now - self._seconds,))
            if wait := max(self._wait(file, key, now) for key in keys):
                return ceil(wait)
            rows = [(key, now) for key in keys]
            file.executemany("INSERT INTO failures (key, at) VALUES (?, ?)", rows)
            file.execute(
                "DELETE FROM failures WHERE rowid IN "
                "(SELECT rowid FROM failures ORDER BY at DESC LIMIT -1 OFFSET ?)",
                (REMEMBERED,),
            )
        return 0

    def forgive(self, *keys: str) -> None:
        """It went well: one failure less."""
        with self._counts.changing() as file:
            for key in keys:
                file.execute(
                    "DELETE FROM failures WHERE rowid = "
                    "(SELECT rowid FROM failures WHERE key = ? ORDER BY at DESC LIMIT 1)",
                    (key,),
                )

    def _wait(self, file: Connection, key: str, now: float) -> float:
        query = "SELECT COUNT(*), MIN(at) FROM failures WHERE key = ?"
        count, oldest = file.execute(query, (key,)).fetchone()
        return 0.0 if count < self._most else oldest + self._seconds - now


def network_of(address: str) -> str:
    """The address; of IPv6 its network, whose 2^64 addresses are one caller's."""
    try:
        known = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    return str(known.ipv4_mapped or ipaddress.IPv6Network((int(known) >> 64 << 64, 64)))

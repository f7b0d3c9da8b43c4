"""A limit on what may fail: so many failures for a name or an address, then nothing for a while."""

import ipaddress
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from math import ceil

MOST = 10
SECONDS = 300.0
REMEMBERED = 10_000
"""Names and addresses kept; the ones that failed longest ago are forgotten first."""


class Attempts:
    """Failures of the last while, in this process."""

    def __init__(
        self,
        most: int = MOST,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most` failures within `seconds`, for each key."""
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def begin(self, *keys: str) -> int:
        """0, and the attempt counts as failed until it is forgiven; or the seconds to wait."""
        now = self._clock()
        with self._lock:
            if wait := max(self._wait(key, now) for key in keys):
                return ceil(wait)
            for key in keys:
                self._failures.setdefault(key, deque()).append(now)
                self._failures.move_to_end(key)
            while len(self._failures) > REMEMBERED:
                self._failures.popitem(last=False)
        return 0

    def forgive(self, *keys: str) -> None:
        """It went well: one failure less."""
        with self._lock:
            for key in keys:
                if failures := self._failures.get(key):
                    failures.pop()

    def _wait(self, key: str, now: float) -> float:
        failures = self._failures.get(key, deque())
        while failures and failures[0] + self._seconds <= now:
            failures.popleft()
        return 0.0 if len(failures) < self._most else failures[0] + self._seconds - now


def network_of(address: str) -> str:
    """The address; of IPv6 its network, whose 2^64 addresses are one caller's."""
    try:
        known = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    return str(known.ipv4_mapped or ipaddress.IPv6Network((int(known) >> 64 << 64, 64)))

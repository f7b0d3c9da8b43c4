"""`POST /user/login`: a token for a name and a password, and a limit on how often that may fail."""

import ipaddress
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from sqlite3 import Connection

from contextrender_bridge.base.errors import InvalidRequest, Unauthorized
from contextrender_bridge.server.accounts.counting import Counts
from contextrender_bridge.server.accounts.users import Accounts
from contextrender_bridge.server.http.fields import LOGIN_BYTES, Fields
from contextrender_bridge.server.http.replies import encode, in_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from graph.runtime.request import Tell

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


LOGIN = "/user/login"
SMALL = {LOGIN: LOGIN_BYTES}
"""Bodies that are read before anybody's token is."""


class Logins:
    """The route, with threads of its own: hashing passwords is slow by design, and guessing must
    not occupy those of others.
    """

    def __init__(self, accounts: Accounts, attempts: Attempts) -> None:
        """Over the accounts of one service."""
        self._accounts = accounts
        self._attempts = attempts
        self._fields = Fields(_Login)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="login")

    def close(self) -> None:
        """Answers those who are logging in."""
        self._threads.shutdown(wait=True)

    def routes(self) -> list[BaseRoute]:
        """The one."""
        return [Route(LOGIN, self.log_in, methods=["POST"])]

    async def log_in(self, request: Request) -> Response:
        """A token, or 401, or 429 after too many failures."""
        body = await request.body()
        address = request.client.host if request.client else ""

        def check(_: Tell) -> bytes:
            given = self._fields.parse(body)
            return encode({"token": self._token(given["username"], given["password"], address)})

        return await in_thread(self._threads, "login", check)

    def _token(self, name: str, password: str, address: str) -> str:
        keys = (f"name {name.lower().strip()}", f"address {network_of(address)}")
        note = self._accounts.audit.note
        known = name if self._accounts.find(name) else ""  # else it may be a mistyped password
        if wait := self._attempts.begin(*keys):
            note("login_refused", known, address=address)
            sentence = f"Too many logins failed. Try again in {wait} seconds."
            raise InvalidRequest(sentence, code="too_many_logins", status=429, retry_after=wait)
        if (token := self._accounts.login(name, password)) is None:
            note("login_failed", known, address=address)
            raise Unauthorized("The name or the password is wrong.")
        self._attempts.forgive(*keys)
        note("login", known, address=address)
        return token


@dataclass
class _Login:
    username: str
    password: str

"""`POST /user/login`: a token for a name and a password, and a limit on how often that may fail."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from contextrender_bridge.base.errors import InvalidRequest, Unauthorized
from contextrender_bridge.server.accounts.attempts import Attempts, network_of
from contextrender_bridge.server.accounts.users import Accounts
from contextrender_bridge.server.http.answering import in_thread
from contextrender_bridge.server.http.fields import LOGIN_BYTES, Fields
from contextrender_bridge.server.http.replies import encode
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from graph.runtime.host import Tell

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

"""Signing in to the API and to the console.

A name and a password get a token, with a limit on how often that may fail. A code that works once
gets the console a cookie that no script can read.

Cookies do not know ports, so another server of this machine may be sent this one's. It is therefore
valid for the walkers alone, and only beside a proof that the page keeps in its origin's storage
and sends as a header, which no other site's page can (docs/security.md).

A read-only link opens the views of its one session, and nothing else.
"""

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from contextrender_bridge.base.errors import InvalidRequest, Unauthorized
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.request_guards import SETTING
from contextrender_bridge.runtime.request import Tell
from contextrender_bridge.server.accounts.callers import CODE_SECONDS, LOGIN_SECONDS, Caller
from contextrender_bridge.server.accounts.users import Accounts
from contextrender_bridge.server.http.bodies import (
    Fields,
    bearer_of,
    encode,
    json_response,
    parse_json,
    response_of,
)
from contextrender_bridge.server.limits.counting import LoginAttempts, network_of
from contextrender_bridge.server.process.threads import in_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

LOGIN = "/user/login"
ENTER, LINK, LEAVE = "/console/sign-in", "/console/link", "/console/sign-out"
SMALL = dict.fromkeys((LOGIN, ENTER, LINK, LEAVE), 4096)
"""The largest bodies, in bytes, of requests whose body is read before a token is checked."""
PROOF = "x-contextrender-console"
COOKIE_PATH = "/walker/"
OWN_SITES = ("same-origin", "none")
"""What a browser's Sec-Fetch-Site says of a server's own pages and of its user."""

type Question = Callable[[], Caller | None]
"""Asks the database whose a request is, so it must not run on the event loop."""
type Ask = Callable[[Question], Awaitable[Caller]]
"""Answers a question in a thread. Raises Unauthorized if there is no caller."""


class SignIn:
    """The routes of signing in, and the cookies that requests bring."""

    def __init__(self, accounts: Accounts, ask: Ask) -> None:
        self._accounts = accounts
        self._ask = ask
        self._attempts = LoginAttempts(accounts.counts)
        self._fields = Fields(_Login)
        # Hashing passwords is slow by design, and guessing must not occupy the threads of others.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="login")

    def close(self) -> None:
        """Answer the logins that have begun."""
        self._threads.shutdown(wait=True)

    def routes(self) -> list[BaseRoute]:
        """Return the routes; the page's own, with the rest of `/console/`, comes after them."""
        return [
            Route(LOGIN, self.log_in, methods=["POST"]),
            Route(ENTER, self.enter, methods=["POST"]),
            Route(LINK, self.link, methods=["POST"]),
            Route(LEAVE, self.leave, methods=["POST"]),
        ]

    async def log_in(self, request: Request) -> Response:
        """Answer a login with a token, or 401, or 429 after too many failures."""
        body = await request.body()
        address = request.client.host if request.client else ""

        def check(_: Tell) -> bytes:
            fields = self._fields.parse(body)
            return encode({"token": self._token(fields["username"], fields["password"], address)})

        return response_of(await in_thread(self._threads, "login", check))

    async def link(self, request: Request) -> Response:
        """Answer the bearer of a token with a code, which follows `/console/#code=` in a link."""
        await self._bearer(request)
        code = self._accounts.tokens.code(bearer_of(request))
        return json_response(encode({"code": code, "seconds": CODE_SECONDS}))

    async def enter(self, request: Request) -> Response:
        """Answer a `code`, or the bearer of a token, with a cookie and its proof."""
        _check_origin(request)
        fields = parse_json(await request.body())
        if bearer_of(request):
            caller = await self._bearer(request)
        else:
            code = fields.get("code") if isinstance(fields, dict) else None
            if not isinstance(code, str):
                raise InvalidRequest("Send `code`, or the token of a user as the bearer.")
            caller = await self._ask(lambda: self._accounts.take_code(code))
        return self._signed_in(request, caller)

    async def leave(self, request: Request) -> Response:
        """Delete the cookie in the browser."""
        _check_origin(request)
        reply = json_response(encode({}))
        reply.delete_cookie(_cookie(request), path=COOKIE_PATH)
        return reply

    def question(self, request: Request) -> Question:
        """Return the question whose cookie a walker's request brings."""
        if not (cookie := request.cookies.get(_cookie(request))):
            return lambda: None
        _check_origin(request)
        proof = request.headers.get(PROOF, "")
        return lambda: self._accounts.console_caller(cookie, proof)

    def _token(self, name: str, password: str, address: str) -> str:
        keys = (f"name {name.lower().strip()}", f"address {network_of(address)}")
        note = self._accounts.audit.note
        known_name = name if self._accounts.find(name) else ""  # else it may be a mistyped password
        if wait := self._attempts.begin(*keys):
            note("login_refused", known_name, address=address)
            sentence = f"Too many logins failed. Try again in {wait} seconds."
            raise InvalidRequest(sentence, code="too_many_logins", status=429, retry_after=wait)
        if (token := self._accounts.login(name, password)) is None:
            note("login_failed", known_name, address=address)
            raise Unauthorized("The name or the password is wrong.")
        self._attempts.forgive(*keys)
        note("login", known_name, address=address)
        return token

    async def _bearer(self, request: Request) -> Caller:
        token = bearer_of(request)
        return await self._ask(lambda: self._accounts.caller(token))

    def _signed_in(self, request: Request, caller: Caller) -> Response:
        cookie, proof = self._accounts.console_sign_in(caller)
        reply = json_response(encode({"user": caller.name, "proof": proof}))
        reply.headers["cache-control"] = "no-store"
        reply.set_cookie(
            _cookie(request),
            cookie,
            max_age=LOGIN_SECONDS,
            path=COOKIE_PATH,
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return reply


def _cookie(request: Request) -> str:
    """Return the cookie's name, which has the port: two servers on one host each have their own."""
    return f"contextrender-{request.url.port or request.url.scheme}"


def _check_origin(request: Request) -> None:
    """Raise InvalidRequest (403) if another site's page asks, as its browser says."""
    origin = urlsplit(request.headers.get("origin", "")).netloc.lower()
    allowed_hosts = {"", request.headers.get("host", "").lower(), *current_settings().allowed_hosts}
    if (
        origin not in allowed_hosts
        or request.headers.get("sec-fetch-site", "none") not in OWN_SITES
    ):
        sentence = f"Another site's page asks; {SETTING} lists those it may."
        raise InvalidRequest(sentence, code="origin_not_allowed", status=403)


def check_shared(walker: type, fields: Mapping[str, Any], session: str) -> None:
    """Raise InvalidRequest (403) if a link does not open this, whether or not it exists."""
    if not getattr(walker, "is_shareable", False) or fields.get("session") != session:
        sentence = "This link opens one session for reading, and nothing else."
        raise InvalidRequest(sentence, code="read_only_link", status=403)


@dataclass
class _Login:
    username: str
    password: str

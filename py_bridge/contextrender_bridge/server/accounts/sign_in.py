"""Signing in to the API and to the console.

A client gets a token for a name and a password; the number of failed logins is limited. The console
gets a cookie, which scripts cannot read, for a code that works once.

A browser sends a cookie to every port of a host, so another server of this machine may receive the
console's. The cookie is therefore valid only for walkers, and only with a proof. The page stores
the proof in its origin's storage and sends it as a header. Other sites' pages cannot read it
(docs/security.md).

A read-only link opens the views of one session, and nothing else.
"""

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from contextrender_bridge.base.errors import InvalidRequest, Unauthorized
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.request_guards import SETTING
from contextrender_bridge.runtime.request import SendReply
from contextrender_bridge.server.accounts.callers import CODE, CODE_SECONDS, LOGIN_SECONDS, Caller
from contextrender_bridge.server.accounts.users import Accounts
from contextrender_bridge.server.http.bodies import (
    Fields,
    bearer_of,
    encode,
    json_response,
    parse_json,
)
from contextrender_bridge.server.limits.counting import LoginAttempts, network_of
from contextrender_bridge.server.process.threads import run_in_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

LOGIN = "/user/login"
ENTER, LINK, LEAVE = "/console/sign-in", "/console/link", "/console/sign-out"
SMALL = dict.fromkeys((LOGIN, ENTER, LINK, LEAVE), 4096)
"""The maximum size, in bytes, of a body on each route that reads it before checking a token."""
PROOF = "x-contextrender-console"
COOKIE_PATH = "/walker/"
ALLOWED_SITES = ("same-origin", "none")
"""The values of the header Sec-Fetch-Site in requests from our own pages or directly by a user."""

type FindCaller = Callable[[], Caller | None]
"""A function that reads a request's caller from the store. It must not run on the event loop."""
type Identify = Callable[[FindCaller], Awaitable[Caller]]
"""A function that finds the caller in a thread. It raises Unauthorized if there is none."""


class SignIn:
    """The routes for signing in and out, and the check of the console's cookies."""

    def __init__(self, accounts: Accounts, identify: Identify) -> None:
        """Serve the users of `accounts`.

        `identify` returns the user of a request, or raises Unauthorized.
        """
        self._accounts = accounts
        self._identify = identify
        self._attempts = LoginAttempts(accounts.counts)
        self._fields = Fields(_Login)
        # Hashing passwords is slow by design. An attacker must not occupy all other threads by it.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="login")

    def close(self) -> None:
        """Wait for the logins that have begun, and stop the threads."""
        self._threads.shutdown(wait=True)

    def routes(self) -> list[BaseRoute]:
        """Return the routes. They must come before the page's route for all of `/console/`."""
        return [
            Route(LOGIN, self.log_in, methods=["POST"]),
            Route(ENTER, self.enter, methods=["POST"]),
            Route(LINK, self.link, methods=["POST"]),
            Route(LEAVE, self.leave, methods=["POST"]),
        ]

    async def log_in(self, request: Request) -> Response:
        """Answer a name and a password with a token.

        Answer 401 if they are wrong, and 429 after too many failures.
        """
        body = await request.body()
        address = request.client.host if request.client else ""

        def check(_: SendReply) -> bytes:
            """Return the reply with the token. This runs in a thread of its own pool."""
            fields = self._fields.parse(body)
            return encode({"token": self._token(fields["username"], fields["password"], address)})

        return json_response(await run_in_thread(self._threads, "login", check))

    async def link(self, request: Request) -> Response:
        """Answer a request that has a token with a code, which signs in to the console once.

        The console opens with it at `/console/#code=CODE`.
        """
        user = await self._bearer(request)
        code = self._accounts.tokens.make(user.user, user.generation, CODE_SECONDS, CODE)
        return json_response(encode({"code": code, "seconds": CODE_SECONDS}))

    async def enter(self, request: Request) -> Response:
        """Sign in to the console: answer a code or a token with a cookie and its proof.

        The code is one that `link` returned. The cookie is valid only in requests that also send
        the proof, in the header `PROOF`.
        """
        _check_origin(request)
        fields = parse_json(await request.body())
        # Find the user by the token in the header, or by the code in the body.
        if bearer_of(request):
            caller = await self._bearer(request)
        else:
            code = fields.get("code") if isinstance(fields, dict) else None
            if not isinstance(code, str):
                raise InvalidRequest("Send `code`, or the token of a user as the bearer.")
            caller = await self._identify(lambda: self._accounts.take_code(code))
        return self._cookie_response(request, caller)

    async def leave(self, request: Request) -> Response:
        """Delete the cookie in the browser."""
        _check_origin(request)
        reply = json_response(encode({}))
        reply.delete_cookie(_cookie_name(request), path=COOKIE_PATH)
        return reply

    def find_caller(self, request: Request) -> Caller | None:
        """Return the caller of a request by its cookie; None without a valid cookie.

        It reads the store, so it must not run on the event loop. Raise InvalidRequest (403) if
        another site's page sends the request.
        """
        if not (cookie := request.cookies.get(_cookie_name(request))):
            return None
        _check_origin(request)
        return self._accounts.console_caller(cookie, request.headers.get(PROOF, ""))

    def _token(self, name: str, password: str, address: str) -> str:
        """Return a token for a name and password, and record the login in the audit log.

        Raise Unauthorized if they are wrong, InvalidRequest (429) after too many failures.
        """
        keys = (f"name {name.lower().strip()}", f"address {network_of(address)}")
        record = self._accounts.audit.record
        # Do not log an unknown name, because it may be a password in the wrong field.
        logged_name = name if self._accounts.find(name) else ""
        # Count the attempt as failed before checking the password, so that simultaneous attempts
        # are counted, too.
        if seconds := self._attempts.begin(*keys):
            record("login_refused", logged_name, address=address)
            sentence = f"Too many logins failed. Try again in {seconds} seconds."
            raise InvalidRequest(sentence, code="too_many_logins", status=429, retry_after=seconds)
        if (token := self._accounts.login(name, password)) is None:
            record("login_failed", logged_name, address=address)
            raise Unauthorized("The name or the password is wrong.")
        self._attempts.forgive(*keys)
        record("login", logged_name, address=address)
        return token

    async def _bearer(self, request: Request) -> Caller:
        """Return the user of the request's token. Raise Unauthorized if it is not valid."""
        token = bearer_of(request)
        return await self._identify(lambda: self._accounts.caller(token))

    def _cookie_response(self, request: Request, caller: Caller) -> Response:
        """Return a reply that sets the cookie and has the user's name and the proof."""
        cookie, proof = self._accounts.console_sign_in(caller)
        reply = json_response(encode({"user": caller.name, "proof": proof}))
        reply.headers["cache-control"] = "no-store"
        reply.set_cookie(
            _cookie_name(request),
            cookie,
            max_age=LOGIN_SECONDS,
            path=COOKIE_PATH,
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return reply


def _cookie_name(request: Request) -> str:
    """Return the cookie's name. It has the port, because servers on one host share cookies."""
    return f"contextrender-{request.url.port or request.url.scheme}"


def _check_origin(request: Request) -> None:
    """Raise InvalidRequest (403) if the browser's headers say that another site sent this."""
    origin_host = urlsplit(request.headers.get("origin", "")).netloc.lower()
    allowed_hosts = {"", request.headers.get("host", "").lower(), *current_settings().allowed_hosts}
    sending_site = request.headers.get("sec-fetch-site", "none")
    if origin_host not in allowed_hosts or sending_site not in ALLOWED_SITES:
        sentence = f"A page of another site sent this request. {SETTING} lists the allowed sites."
        raise InvalidRequest(sentence, code="origin_not_allowed", status=403)


def check_shared(walker: type, fields: Mapping[str, Any], session: str) -> None:
    """Raise InvalidRequest (403) if a read-only link to `session` does not permit this request.

    It permits only shareable walkers, and only with this session.
    """
    if not getattr(walker, "is_shareable", False) or fields.get("session") != session:
        sentence = "This link opens one session for reading, and nothing else."
        raise InvalidRequest(sentence, code="read_only_link", status=403)


@dataclass
class _Login:
    username: str
    password: str

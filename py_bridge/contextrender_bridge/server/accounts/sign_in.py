"""Signing in to the console: a code that works once buys a cookie that no script can read.

Cookies do not know ports, so another server of this machine may be sent this one's. It is therefore
valid for the walkers alone, and only beside a proof that the page keeps in its origin's storage
and sends as a header, which no other site's page can (docs/security.md).

A read-only link opens the views of its one session, and nothing else.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from contextrender_bridge.base.errors import ContextRenderError, InvalidRequest
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.own_hosts import SETTING
from contextrender_bridge.server.accounts.tokens import CODE_SECONDS, LOGIN_SECONDS
from contextrender_bridge.server.accounts.users import Accounts, Caller
from contextrender_bridge.server.http.fields import LOGIN_BYTES, parse_json
from contextrender_bridge.server.http.replies import encode, json_response
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

ENTER, LINK, LEAVE = "/console/sign-in", "/console/link", "/console/sign-out"
SMALL = {ENTER: LOGIN_BYTES, LINK: LOGIN_BYTES, LEAVE: LOGIN_BYTES}
"""Bodies that are read before anybody's token is."""
PROOF = "x-contextrender-console"
COOKIE_PATH = "/walker/"
OWN = ("same-origin", "none")
"""What a browser's Sec-Fetch-Site says of a server's own pages and of its user."""

type Question = Callable[[], Caller | None]
"""Of the database, so not for the loop."""
type Ask = Callable[[Question], Awaitable[Caller]]
"""Asks in a thread. Raises Unauthorized where there is no caller."""


class SignIn:
    """The routes, and whose cookie a request brings."""

    def __init__(self, accounts: Accounts, ask: Ask) -> None:
        """Over the accounts of the service."""
        self._accounts = accounts
        self._ask = ask

    def routes(self) -> list[BaseRoute]:
        """Before the page's own, which has the rest of `/console/`."""
        return [
            Route(ENTER, self.enter, methods=["POST"]),
            Route(LINK, self.link, methods=["POST"]),
            Route(LEAVE, self.leave, methods=["POST"]),
        ]

    async def link(self, request: Request) -> Response:
        """A code for the bearer of a token; it follows `/console/#code=` in a link."""
        await self._bearer(request)
        code = self._accounts.console_code(bearer_of(request))
        return json_response(encode({"code": code, "seconds": CODE_SECONDS}))

    async def enter(self, request: Request) -> Response:
        """A cookie, and the proof that goes with it, for a `code` or for the bearer of a token."""
        _check_origin(request)
        given = parse_json(await request.body())
        if bearer_of(request):
            caller = await self._bearer(request)
        else:
            code = given.get("code") if isinstance(given, dict) else None
            if not isinstance(code, str):
                raise InvalidRequest("Send `code`, or the token of a user as the bearer.")
            caller = await self._ask(lambda: self._accounts.take_code(code))
        return self._signed_in(request, caller)

    async def leave(self, request: Request) -> Response:
        """Takes the cookie out of the browser."""
        _check_origin(request)
        reply = json_response(encode({}))
        reply.delete_cookie(_cookie(request), path=COOKIE_PATH)
        return reply

    def question(self, request: Request) -> Question:
        """Whose token, cookie or read-only link a walker's request brings."""
        token, cookie = bearer_of(request), request.cookies.get(_cookie(request))
        if token or not cookie:
            return lambda: self._accounts.caller(token) or self._accounts.visitor(token)
        _check_origin(request)
        proof = request.headers.get(PROOF, "")
        return lambda: self._accounts.console_caller(cookie, proof)

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


def bearer_of(request: Request) -> str:
    """The token that a request brings, or nothing."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _cookie(request: Request) -> str:
    """Two servers on one host, at different ports, sign in beside each other."""
    return f"contextrender-{request.url.port or request.url.scheme}"


def _check_origin(request: Request) -> None:
    """A browser says whose page asks: what it holds is for this server's own."""
    origin = urlsplit(request.headers.get("origin", "")).netloc.lower()
    known = {"", request.headers.get("host", "").lower(), *current_settings().allowed_hosts}
    if origin not in known or request.headers.get("sec-fetch-site", "none") not in OWN:
        sentence = f"Another site's page asks; {SETTING} lists those it may."
        raise InvalidRequest(sentence, code="foreign_origin", status=403)


class NotShared(ContextRenderError):
    """A read-only link does not open that."""

    code = "read_only_link"
    status = 403


def check_shared(walker: type, fields: Mapping[str, Any], session: str) -> None:
    """Raises NotShared, whether or not there is what is asked for."""
    if not getattr(walker, "is_open", False) or fields.get("session") != session:
        raise NotShared("This link opens one session for reading, and nothing else.")

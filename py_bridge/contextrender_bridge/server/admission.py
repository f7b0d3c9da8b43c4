"""Whose a request is, and whether that user may make another call."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from starlette.requests import Request

from contextrender_bridge.base.errors import Unauthorized
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.body_limits import BodyLimits
from contextrender_bridge.server.accounts.callers import Caller
from contextrender_bridge.server.accounts.sign_in import SMALL, Question, SignIn
from contextrender_bridge.server.accounts.users import LOCAL_USER, Accounts
from contextrender_bridge.server.http.bodies import bearer_of
from contextrender_bridge.server.limits.counting import Quotas
from contextrender_bridge.server.watching.logs import REQUEST
from contextrender_bridge.store.writes import StoreUnavailable

THREADS: Final = 4


class Admission:
    """The check of every request's token, and the bodies that are held."""

    def __init__(
        self,
        accounts: Accounts,
        quotas: Quotas,
        settings: Settings,
        begin: Callable[[], None],
    ) -> None:
        """Call `begin` first in each thread that asks the database whose a token is."""
        self._accounts, self._quotas = accounts, quotas
        self.bodies = BodyLimits(settings, SMALL, user=_known_user)
        self._threads = ThreadPoolExecutor(THREADS, "token", initializer=begin)
        self.sign_in = SignIn(accounts, self.identify)

    def close(self) -> None:
        """Stop the threads, once they have finished the token checks and logins that have begun."""
        self._threads.shutdown(wait=True)
        self.sign_in.close()

    def question(self, request: Request) -> Question:
        """Return the question whose token, read-only link or cookie a walker's request brings."""
        token, accounts = bearer_of(request), self._accounts
        if token or "cookie" not in request.headers:
            return lambda: accounts.caller(token) or accounts.visitor(token)
        return self.sign_in.question(request)

    def admit(self, question: Question) -> Caller:
        """Return the caller and count a call, in this thread.

        Raise Unauthorized, or InvalidRequest (429).
        """
        caller = _identify(question)
        if self._quotas.has_limits:
            self._quotas.check_call(caller)
        return caller

    async def admitted(self, question: Question) -> Caller:
        """Do what `admit` does, from the event loop."""
        return await self._ask(lambda: self.admit(question))

    async def of_token(self, token: str) -> Caller:
        """Return a token's user and count a call. Raise Unauthorized, or InvalidRequest (429)."""
        return await self.admitted(lambda: self._accounts.caller(token))

    async def identify(self, question: Question) -> Caller:
        """Return the caller without counting a call. Raise Unauthorized."""
        return await self._ask(lambda: _identify(question))

    async def is_local_users(self, request: Request) -> bool:
        """Return whether a request brings the local user's token."""
        token = bearer_of(request)
        try:
            caller = await self._ask(lambda: self._accounts.caller(token))
        except StoreUnavailable:
            return False
        return caller is not None and caller.name == LOCAL_USER

    async def _ask[T](self, question: Callable[[], T]) -> T:
        here = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, here.run, question)


def _known_user() -> str:
    """Return the user whose request this is; empty until a token was read."""
    about = REQUEST.get()
    return about.user if about else ""


def _identify(question: Question) -> Caller:
    """Return the caller, and note the name for the log. Raise Unauthorized."""
    if (caller := question()) is None:
        raise Unauthorized("Send a valid token: `Authorization: Bearer TOKEN`.")
    if (about := REQUEST.get()) is not None:
        about.user = caller.name
    return caller

"""Admission of requests: it finds each request's caller, and counts users' calls."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from starlette.requests import Request

from contextrender_bridge.base.errors import Unauthorized
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.request_guards import BodyLimits
from contextrender_bridge.server.accounts.callers import Caller
from contextrender_bridge.server.accounts.sign_in import SMALL, FindCaller, SignIn
from contextrender_bridge.server.accounts.users import LOCAL_USER, Accounts
from contextrender_bridge.server.http.bodies import bearer_of
from contextrender_bridge.server.limits.counting import Quotas
from contextrender_bridge.server.watching.logs import REQUEST
from contextrender_bridge.store.writes import StoreUnavailable

TOKEN_THREADS: Final = 4


class Admission:
    """The admission of requests: it checks tokens, and limits users' calls and bodies."""

    def __init__(
        self,
        accounts: Accounts,
        quotas: Quotas,
        settings: Settings,
        begin: Callable[[], None],
    ) -> None:
        """Create the pool of threads that check tokens. Each thread first runs `begin`."""
        self._accounts, self._quotas = accounts, quotas
        self.bodies = BodyLimits(settings, SMALL, user=_current_user)
        self._threads = ThreadPoolExecutor(TOKEN_THREADS, "token", initializer=begin)
        self.sign_in = SignIn(accounts, self.identify)

    def close(self) -> None:
        """Wait for the token checks and logins that have begun, and stop the threads."""
        self._threads.shutdown(wait=True)
        self.sign_in.close()

    def caller_finder(self, request: Request) -> FindCaller:
        """Return a function that finds the caller by the request's token, link or cookie.

        The bearer of a request is a token or the secret of a link. The cookie counts only without a
        bearer. The function reads the store, so it must not run on the event loop.
        """
        token, accounts = bearer_of(request), self._accounts
        if token or "cookie" not in request.headers:
            return lambda: accounts.caller(token) or accounts.visitor(token)
        return self.sign_in.caller_finder(request)

    def admit(self, find_caller: FindCaller) -> Caller:
        """Return the caller, and count a call of that user. This blocks the thread.

        Raise Unauthorized if there is no caller, InvalidRequest (429) after too many calls.
        """
        caller = _identify(find_caller)
        if self._quotas.has_limits:
            self._quotas.check_call(caller)
        return caller

    async def admit_async(self, find_caller: FindCaller) -> Caller:
        """Run `admit` in a thread and return the caller. For use on the event loop."""
        return await self._in_thread(lambda: self.admit(find_caller))

    async def admit_token(self, token: str) -> Caller:
        """Return a token's user, and count a call.

        Raise Unauthorized if the token is invalid, InvalidRequest (429) after too many calls.
        """
        return await self.admit_async(lambda: self._accounts.caller(token))

    async def identify(self, find_caller: FindCaller) -> Caller:
        """Return the caller without counting a call. Raise Unauthorized if there is none."""
        return await self._in_thread(lambda: _identify(find_caller))

    async def is_from_local_user(self, request: Request) -> bool:
        """Return whether a request has the local user's token; False if the store fails."""
        token = bearer_of(request)
        try:
            caller = await self._in_thread(lambda: self._accounts.caller(token))
        except StoreUnavailable:
            return False
        return caller is not None and caller.name == LOCAL_USER

    async def _in_thread[T](self, work: Callable[[], T]) -> T:
        """Run `work` in a thread of the pool, with this request's context variables."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, context.run, work)


def _current_user() -> str:
    """Return the name of the current request's user; empty before the token is checked."""
    request = REQUEST.get()
    return request.user if request else ""


def _identify(find_caller: FindCaller) -> Caller:
    """Return the caller, and add the caller's name to the request's log fields.

    Raise Unauthorized if there is no caller.
    """
    if (caller := find_caller()) is None:
        raise Unauthorized("Send a valid token: `Authorization: Bearer TOKEN`.")
    if (request := REQUEST.get()) is not None:
        request.user = caller.name
    return caller

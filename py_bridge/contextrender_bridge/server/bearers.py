"""Whose request it is: the database says, in threads, for which the loop does not wait."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from starlette.requests import Request

from contextrender_bridge.errors import Unauthorized
from contextrender_bridge.server.accounts import LOCAL_USER, Accounts, Caller
from contextrender_bridge.server.logs import ASKED
from contextrender_bridge.server.quotas import Quotas
from contextrender_bridge.server.sign_in import Question, bearer_of
from graph.runtime.unit import StoreUnavailable

THREADS = 4


class Bearers:
    """Callers by their tokens, noted for the log."""

    def __init__(self, accounts: Accounts, quotas: Quotas, begin: Callable[[], None]) -> None:
        """Over the accounts of one service, and what its users may take; each of its threads calls
        `begin` first."""
        self._accounts = accounts
        self._quotas = quotas
        self._threads = ThreadPoolExecutor(THREADS, "token", initializer=begin)

    def close(self) -> None:
        """Answers the questions that were asked."""
        self._threads.shutdown(wait=True)

    def admit(self, question: Question) -> Caller:
        """Counted as a call, in this thread. Raises Unauthorized, or InvalidRequest (429)."""
        return _noted(self._admit(question))

    async def admitted(self, question: Question) -> Caller:
        """The same, from the loop."""
        return _noted(await self._ask(lambda: self._admit(question)))

    async def of_token(self, token: str) -> Caller:
        """Whose token it is, counted as a call. Raises Unauthorized, or InvalidRequest (429)."""
        return await self.admitted(lambda: self._accounts.caller(token))

    async def known(self, question: Question) -> Caller:
        """Not counted. Raises Unauthorized."""
        return _noted(await self._ask(lambda: _found(question())))

    async def is_local_users(self, request: Request) -> bool:
        """Whether it brings the local user's token."""
        token = bearer_of(request)
        try:
            caller = await self._ask(lambda: self._accounts.caller(token))
        except StoreUnavailable:
            return False
        return caller is not None and caller.name == LOCAL_USER

    def _admit(self, question: Question) -> Caller:
        caller = _found(question())
        self._quotas.check_call(caller)
        return caller

    async def _ask[T](self, question: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, question)


def _found(caller: Caller | None) -> Caller:
    if caller is None:
        raise Unauthorized("Send a token that is good: `Authorization: Bearer TOKEN`.")
    return caller


def _noted(caller: Caller) -> Caller:
    """For the log: the request is this caller's."""
    if (asked := ASKED.get()) is not None:
        asked.user = caller.name
    return caller

"""What every request goes through, in this order: its id, the figures and the log; the host that it
asks for; its body's size, time and room; whose it is, and what that user may still take.
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contextrender_bridge.base.errors import ContextRenderError, InvalidRequest, Unauthorized
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.base.spans import span, traceparent
from contextrender_bridge.own_hosts import OwnHosts
from contextrender_bridge.server.accounts.sign_in import Question, bearer_of
from contextrender_bridge.server.accounts.users import LOCAL_USER, Accounts, Caller
from contextrender_bridge.server.http.replies import error_response
from contextrender_bridge.server.limits.bodies import Bodies
from contextrender_bridge.server.limits.quotas import Quotas
from contextrender_bridge.server.logs import ASKED, Asked, log_request
from contextrender_bridge.server.watching.metrics import Metrics
from graph.store.writes import StoreUnavailable

THREADS = 4
REQUEST_ID = "x-request-id"
FIT_FOR_AN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Admission:
    """The one gate of a service."""

    def __init__(
        self,
        accounts: Accounts,
        quotas: Quotas,
        metrics: Metrics,
        settings: Settings,
        small: Mapping[str, int],
        begin: Callable[[], None],
    ) -> None:
        """`small` are paths whose bodies are limited to so many bytes. Each thread that asks the
        database whose a token is calls `begin` first.
        """
        self._accounts, self._quotas, self._metrics = accounts, quotas, metrics
        self._bodies = Bodies(settings, small)
        self._threads = ThreadPoolExecutor(THREADS, "token", initializer=begin)

    def close(self) -> None:
        """Answers the questions that were asked."""
        self._threads.shutdown(wait=True)

    def around(self, app: ASGIApp) -> ASGIApp:
        """The app, reached by what is admitted."""
        hosts = OwnHosts(app)

        async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                await self._answer(app, hosts, scope, receive, send)
            else:
                await hosts(scope, receive, send)

        return admitted

    async def _answer(
        self, app: ASGIApp, hosts: OwnHosts, scope: Scope, receive: Receive, send: Send
    ) -> None:
        route = self._metrics.route_of(scope["path"])
        asked = Asked(_id_of(scope))
        ASKED.set(asked)
        status, started = 500, time.perf_counter()

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).setdefault(REQUEST_ID, asked.id)
            await send(message)

        self._metrics.in_flight.inc()
        try:
            with span(f"{scope['method']} {route}", traceparent(scope["headers"])):
                refused = _refusal(hosts, scope) or self._bodies.refusal(scope)
                if refused is not None:
                    await error_response(refused)(scope, receive, noting)
                    return
                with self._bodies.reading(scope, receive, asked) as body:
                    await app(scope, body, noting)
        finally:
            self._metrics.in_flight.dec()
            seconds = time.perf_counter() - started
            self._metrics.answered(route, asked.policy, status, seconds)
            log_request(route, status, seconds)
            self._metrics.tell_caches()

    def admit(self, question: Question) -> Caller:
        """Counted as a call, in this thread. Raises Unauthorized, or InvalidRequest (429)."""
        caller = _found(question())
        self._quotas.check_call(caller)
        return _noted(caller)

    async def admitted(self, question: Question) -> Caller:
        """The same, from the loop."""

        def admit() -> Caller:
            caller = _found(question())
            self._quotas.check_call(caller)
            return caller

        return _noted(await self._ask(admit))

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

    async def _ask[T](self, question: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, question)


def _refusal(hosts: OwnHosts, scope: Scope) -> ContextRenderError | None:
    refused = hosts.refusal(scope)
    if refused is None:
        return None
    status, code, sentence = refused
    return InvalidRequest(sentence, code=code, status=status)


def _found(caller: Caller | None) -> Caller:
    if caller is None:
        raise Unauthorized("Send a valid token: `Authorization: Bearer TOKEN`.")
    return caller


def _noted(caller: Caller) -> Caller:
    """For the log: the request is this caller's."""
    if (asked := ASKED.get()) is not None:
        asked.user = caller.name
    return caller


def _id_of(scope: Scope) -> str:
    """The id that the caller gave the request, if it can be written anywhere; else a new one."""
    given = Headers(scope=scope).get(REQUEST_ID, "")
    return given if FIT_FOR_AN_ID.fullmatch(given) else uuid4().hex

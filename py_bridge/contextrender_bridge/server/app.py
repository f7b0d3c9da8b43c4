"""The ASGI application. Long because one class holds what its routes share."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from contextrender_bridge.errors import (
    InvalidRequest,
    NotFound,
    NotReady,
    Unauthorized,
)
from contextrender_bridge.own_hosts import OwnHosts
from contextrender_bridge.paths import app_dir, make_private
from contextrender_bridge.proxy.mounted import MountedProxy
from contextrender_bridge.server.accounts import LOCAL_USER, Accounts, Caller
from contextrender_bridge.server.answering import in_thread
from contextrender_bridge.server.attempts import Attempts, network_of
from contextrender_bridge.server.audit import AUDITED
from contextrender_bridge.server.console import console_routes
from contextrender_bridge.server.counts import Counts
from contextrender_bridge.server.endpoints import Fields
from contextrender_bridge.server.limits import LOGIN_BYTES, BodyLimit
from contextrender_bridge.server.logs import ASKED
from contextrender_bridge.server.metered import Metered
from contextrender_bridge.server.metrics import CONTENT_TYPE, Metrics, is_of_this_machine
from contextrender_bridge.server.pace import LOOKING_THREADS, LOOKS, Pace
from contextrender_bridge.server.providers import Providers, Questions
from contextrender_bridge.server.quotas import Quotas
from contextrender_bridge.server.readiness import Readiness
from contextrender_bridge.server.redaction import Redaction
from contextrender_bridge.server.refusals import REFUSALS
from contextrender_bridge.server.replies import encode, error_response, json_response
from contextrender_bridge.server.retention import Retention
from contextrender_bridge.server.runtime import Runtime
from contextrender_bridge.server.sign_in import SMALL, Question, SignIn, bearer_of
from contextrender_bridge.settings import Settings, current_settings
from contextrender_bridge.spans import use_opentelemetry
from engine.models.answers import Answers, Waiting
from graph.runtime.early import Tell
from graph.runtime.unit import StoreUnavailable

SMALL_BYTES: Final = 65_536
"""A call of an agent brings what is new, which is less; strangers may send as much for nothing."""


class Service:
    """The routes' handlers and what they share."""

    def __init__(self, app: Path, data: Path, settings: Settings) -> None:
        """Loads the Jac app over the store in `data`."""
        self._redaction = Redaction.of(settings.redact)
        self.runtime = Runtime(app, data)
        try:
            self.accounts = Accounts(self.runtime, data)
        except BaseException:
            self.runtime.close()
            raise
        self.sign_in = SignIn(self.accounts, self._known)
        self.readiness = Readiness(self.runtime.store, data, settings)
        self._counts = Counts(data)
        self._attempts = Attempts(self._counts)
        self._quotas = Quotas(settings, self.runtime.store, self._counts)
        self.retention = Retention(self.runtime, self.accounts, settings)
        self.metrics = Metrics(self.runtime.store, data, self.runtime.walkers)
        self.retention.on_collected = self.metrics.collected
        self.runtime.on_reports = self.metrics.rendered
        self.runtime.on_conflict = self.metrics.conflicts.inc
        self.runtime.store.on_refused = self.metrics.refused_writes.inc
        self._fields = {name: Fields(walker) for name, walker in self.runtime.walkers.items()}
        self._login_fields = Fields(_Login)
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="walker")
        self._looking = ThreadPoolExecutor(LOOKING_THREADS, thread_name_prefix="look")
        self._pace = Pace()
        self._providers = Providers(settings.provider_threads)
        # Hashing passwords is slow by design: guessing must not occupy every thread.
        self._login_threads = ThreadPoolExecutor(2, thread_name_prefix="login")
        # Whose token it is, the database says: the loop does not wait for that.
        self._token_threads = ThreadPoolExecutor(4, thread_name_prefix="token")

    async def call_walker(self, request: Request) -> Response:
        """`POST /walker/{name}`: run it for the bearer of the token."""
        question, name = self.sign_in.question(request), request.path_params["name"]
        if _is_small(request):
            body = await request.body()
            return await self._run_walker(name, body, lambda: _noted(self._admit(question)))
        caller = _noted(await self._ask(lambda: self._admit(question)))
        return await self._run_walker(name, await request.body(), lambda: caller)

    async def call_inside(self, name: str, body: bytes, caller: Caller) -> Response:
        """A walker's reply to the mounted proxy, which has counted the call already."""
        return await self._run_walker(name, body, lambda: caller)

    async def login(self, request: Request) -> Response:
        """`POST /user/login`: a token for a name and a password."""
        body = await request.body()
        address = request.client.host if request.client else ""

        def check(_: Tell) -> bytes:
            given = self._login_fields.parse(body)
            return encode({"token": self._log_in(given["username"], given["password"], address)})

        return await in_thread(self._login_threads, "login", check)

    async def healthz(self, request: Request) -> Response:
        """`GET /healthz`, `GET /healthz/live`: the process answers."""
        return json_response(b'{"status":"ok"}')

    async def ready(self, request: Request) -> Response:
        """`GET /healthz/ready`: 503 with a sentence while requests cannot be served.

        Why not is for this machine's programs and the local user.
        """
        try:
            found = await self.readiness.look()
        except NotReady as trouble:
            known = is_of_this_machine(request.scope) or await self._is_local_users(request)
            return error_response(trouble if known else NotReady("The server is not ready."))
        return json_response(encode(found))

    async def show_metrics(self, request: Request) -> Response:
        """`GET /metrics`: to this machine's programs, or the local user from elsewhere."""
        if not is_of_this_machine(request.scope) and not await self._is_local_users(request):
            raise Unauthorized("From elsewhere, send the local user's token.")
        page = await asyncio.get_running_loop().run_in_executor(self._threads, self.metrics.page)
        return Response(page, media_type=CONTENT_TYPE)

    def close(self) -> None:
        """Finish running walkers and close the store."""
        self.readiness.close()
        self._token_threads.shutdown(wait=True)
        self._login_threads.shutdown(wait=True)
        self._providers.close()
        self._threads.shutdown(wait=True)
        self._looking.shutdown(wait=True)
        self._counts.close()
        self.accounts.close()
        self.runtime.close()

    async def _run_walker(self, name: str, body: bytes, admitted: Callable[[], Caller]) -> Response:
        looks = name in LOOKS
        callers: list[Caller] = []

        def work(tell: Tell) -> bytes | Waiting:
            if not callers:
                callers.append(admitted())
            with self._pace.look() if looks else self._pace.agent():
                return self._work(name, body, callers[0], questions.answers, tell)

        threads = self._looking if looks else self._threads
        with Questions(self._providers) as questions:
            while isinstance(made := await in_thread(threads, f"walker {name}", work), Waiting):
                await questions.ask(callers[0].root, made)
        return made

    def _work(
        self, name: str, body: bytes, caller: Caller, answers: Answers, tell: Tell
    ) -> bytes | Waiting:
        if (fields := self._fields.get(name)) is None:
            raise NotFound("There is no such walker.", code="unknown_walker")

        def parse() -> Mapping[str, Any]:
            return self._redaction.applied(fields.parse(body))

        given = parse()
        self._quotas.check_write(caller, given, len(body))
        parsed = [given]

        def anew() -> Mapping[str, Any]:
            return parsed.pop() if parsed else parse()

        def told(report: object) -> None:
            self.metrics.told(name, report)
            tell(report)

        reply = self.runtime.run(name, anew, caller.root, answers, told)
        if name in AUDITED:
            self.accounts.audit.note(AUDITED[name], caller.name, session=given.get("session", ""))
        return reply

    def _log_in(self, name: str, password: str, address: str) -> str:
        """A token. Raises Unauthorized, and InvalidRequest (429) after too many failures."""
        keys = (f"name {name.lower().strip()}", f"address {network_of(address)}")
        known = name if self.accounts.find(name) else ""  # else it may be a mistyped password
        if wait := self._attempts.begin(*keys):
            self.accounts.audit.note("login_refused", known, address=address)
            sentence = f"Too many logins failed. Try again in {wait} seconds."
            raise InvalidRequest(sentence, code="too_many_logins", status=429, retry_after=wait)
        if (token := self.accounts.login(name, password)) is None:
            self.accounts.audit.note("login_failed", known, address=address)
            raise Unauthorized("The name or the password is wrong.")
        self._attempts.forgive(*keys)
        self.accounts.audit.note("login", known, address=address)
        return token

    async def admit(self, token: str) -> Caller:
        """Whose token it is, counted as a call. Raises Unauthorized, or InvalidRequest (429)."""
        return _noted(await self._ask(lambda: self._admit(lambda: self.accounts.caller(token))))

    async def _known(self, question: Question) -> Caller:
        return _noted(await self._ask(lambda: _found(question())))

    def _admit(self, question: Question) -> Caller:
        caller = _found(question())
        self._quotas.check_call(caller)
        return caller

    async def _is_local_users(self, request: Request) -> bool:
        token = bearer_of(request)
        try:
            caller = await self._ask(lambda: self.accounts.caller(token))
        except StoreUnavailable:
            return False
        return caller is not None and caller.name == LOCAL_USER

    async def _ask[T](self, question: Callable[[], T]) -> T:
        """Of the database, which the loop does not wait for."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._token_threads, question)


def _is_small(request: Request) -> bool:
    """Whether its body may be read before its token is, which then takes no thread of its own."""
    length = request.headers.get("content-length", "")
    return length.isdecimal() and int(length) <= SMALL_BYTES


def _found(caller: Caller | None) -> Caller:
    if caller is None:
        raise Unauthorized("Send a token that is good: `Authorization: Bearer TOKEN`.")
    return caller


def _noted(caller: Caller) -> Caller:
    """For the log: the request is this caller's."""
    if (asked := ASKED.get()) is not None:
        asked.user = caller.name
    return caller


def build_app(
    data: Path, *, app: Path | None = None, settings: Settings | None = None
) -> Starlette:
    """The service over the store in `data`, for any ASGI server; its core is `state.service`."""
    settings = settings or current_settings()
    if settings.otel:
        use_opentelemetry()
    service = Service(app or app_dir(), make_private(data), settings)
    walkers = Route("/walker/{name}", service.call_walker, methods=["POST"])
    proxy = MountedProxy(current_settings(), service.admit, service.call_inside)
    proxy.tell_failures(service.metrics.failed_open)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with service.retention.running():
            yield
        await proxy.close()
        await asyncio.to_thread(service.close)

    starlette = Starlette(
        routes=[
            walkers,
            Route("/user/login", service.login, methods=["POST"]),
            Route("/healthz", service.healthz, methods=["GET"]),
            Route("/healthz/live", service.healthz, methods=["GET"]),
            Route("/healthz/ready", service.ready, methods=["GET"]),
            Route("/metrics", service.show_metrics, methods=["GET"]),
            *service.sign_in.routes(),
            *console_routes(),
            *proxy.routes(),
        ],
        middleware=[
            Middleware(Metered, metrics=service.metrics),
            Middleware(OwnHosts),
            Middleware(
                BodyLimit,
                max_bytes=settings.max_body_mb * 2**20,
                routes={"/user/login": LOGIN_BYTES, **SMALL},
                whole=settings.body_seconds,
            ),
        ],
        exception_handlers=REFUSALS,
        lifespan=lifespan,
    )
    starlette.router.redirect_slashes = False
    starlette.state.service = service
    return starlette


@dataclass
class _Login:
    username: str
    password: str

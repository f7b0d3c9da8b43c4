"""The ASGI application of the service: the admission of requests, and the route of the walkers.

Long because it connects all parts of the service.
"""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from contextrender_bridge.asgi import error_fields
from contextrender_bridge.base.errors import ContextRenderError, NotFound, Unauthorized
from contextrender_bridge.base.paths import app_dir, make_data_private
from contextrender_bridge.base.settings import Settings, current_settings
from contextrender_bridge.base.spans import use_opentelemetry
from contextrender_bridge.client.connection import ServiceReply
from contextrender_bridge.engine.models.providers import ProviderAnswers
from contextrender_bridge.request_guards import BodyLimits, Guard, is_loopback
from contextrender_bridge.runtime.request import SIGNER, SendReply
from contextrender_bridge.server.accounts.callers import Caller
from contextrender_bridge.server.accounts.sign_in import SMALL, FindCaller, SignIn, check_shared
from contextrender_bridge.server.accounts.users import LOCAL_USER, Accounts
from contextrender_bridge.server.http.bodies import (
    REFUSALS,
    Fields,
    WalkerInput,
    bearer_of,
    json_value,
    response_of,
)
from contextrender_bridge.server.http.pages import console_routes, graph_routes
from contextrender_bridge.server.limits.counting import Quotas
from contextrender_bridge.server.limits.redaction import Redaction
from contextrender_bridge.server.limits.retention import Retention
from contextrender_bridge.server.mounted_proxy import PATHS, mounted_proxy
from contextrender_bridge.server.process.process_resources import (
    CHECK_SECONDS,
    MemoryTrimmer,
    OneProcessor,
    run_periodically,
)
from contextrender_bridge.server.process.threads import Threads
from contextrender_bridge.server.runtime import Runtime, WalkerRun
from contextrender_bridge.server.watching.logs import REQUEST
from contextrender_bridge.server.watching.metrics import Metrics
from contextrender_bridge.server.watching.readiness import Readiness
from contextrender_bridge.sessions.ids import IS_OWN_MACHINE
from contextrender_bridge.store.sqlite import SqliteStore
from contextrender_bridge.store.writes import StoreUnavailable

TOKEN_THREADS: Final = 4
SMALL_BYTES: Final = 65_536
"""The largest body, in bytes, that is read before its token is checked. Most calls are smaller."""


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


class Service:
    """The service's walkers, its limits, and the parts that its routes share."""

    def __init__(self, app: Path, data: Path, settings: Settings, *, is_only_worker: bool) -> None:
        """Load the Jac app and open the store.

        `is_only_worker` is False if other processes serve the same port. Then the threads of this
        process are not kept on one processor.
        """
        self._redaction = Redaction.of(settings.redact) if settings.redact else None
        self.runtime = Runtime(app, data)
        # If a later step fails, close the store that the runtime has opened.
        try:
            self.accounts = Accounts(self.runtime, data)
        except BaseException:
            self.runtime.close()
            raise
        store = self.runtime.store
        # Create the parts of the service, and let the metrics count what happens in them.
        self.processor = OneProcessor(settings.pin_cpu and is_only_worker)
        self.retention = Retention(self.runtime, self.accounts, settings)
        self.metrics = Metrics(store, data, self.runtime.walkers)
        self.retention.on_deleted = lambda reason: self.metrics.deletions.labels(reason).inc()
        self.runtime.on_reports = self.metrics.requests.count_rendered
        self.runtime.on_conflict = self.metrics.conflicts.inc
        store.on_refused = self.metrics.refused_writes.inc
        self._quotas = Quotas(settings, store, self.accounts.counts)
        self.admission = Admission(self.accounts, self._quotas, settings, self.processor.add_thread)
        self._readiness = Readiness(
            store, data, settings, self.metrics, self.admission.is_from_local_user
        )
        self._field_readers = {
            name: Fields(walker) for name, walker in self.runtime.walkers.items()
        }
        self._threads = Threads(settings, self.processor)

    def routes(self) -> list[BaseRoute]:
        """Return all routes except those of the console's page and the proxy."""
        walkers = Route("/walker/{name}", self.call_walker, methods=["POST"])
        other_routes = (*self._readiness.routes(), *self.admission.sign_in.routes())
        return [walkers, *graph_routes(self._get_node), *other_routes]

    async def call_walker(self, request: Request) -> Response:
        """Answer `POST /walker/{name}`: run the walker for the user of the token.

        The caller is admitted before the body is read, unless the body is small.
        """
        find_caller, name = self.admission.caller_finder(request), request.path_params["name"]
        # Note whether the request came over loopback, for `_set_permissions`.
        if self._reads_agents_files(name):
            server_address, *_ = request.scope.get("server") or ("",)
            IS_OWN_MACHINE.set(is_loopback(server_address))
        caller = None if _is_small(request) else await self.admission.admit_async(find_caller)
        body = await request.body()

        def admit() -> Caller:
            """Return the caller. Admit it now, in the walker's thread, if that was not done yet."""
            return caller or self.admission.admit(find_caller)

        return response_of(await self._run_walker(name, body, admit))

    async def _get_node(self, request: Request, fields: Mapping[str, Any]) -> Any:
        """Return the reply of the walker `get_node` for the user of a request, or an error."""
        admit = partial(self.admission.admit, self.admission.caller_finder(request))
        return await self._run_walker("get_node", fields, admit)

    async def call_inside(
        self, name: str, fields: Mapping[str, Any], caller: Caller
    ) -> ServiceReply:
        """Run a walker for the mounted proxy, which has already admitted the caller.

        Return its reply, or an error as a reply with the error's status.
        """
        reply = await self._run_walker(name, fields, lambda: caller)
        if isinstance(reply, ContextRenderError):
            return ServiceReply(reply.status, json_value(error_fields(reply)))
        return ServiceReply(200, reply)

    def close(self) -> None:
        """Wait for running walkers, then close the store."""
        self._readiness.close()
        self.admission.close()
        self._threads.close()
        self.accounts.counts.close()
        self.runtime.close()

    async def _run_walker(self, name: str, body: WalkerInput, admit: Callable[[], Caller]) -> Any:
        """Run the walker `name` in a thread, and return its reply or the error for the client.

        `admit` returns the request's user, or raises the error that refuses the request.
        """
        work = partial(self._run_for_caller, name, body)
        walker = self.runtime.walkers.get(name)
        is_low_priority = getattr(walker, "is_low_priority", False)
        return await self._threads.answer(
            f"walker {name}", admit, work, is_low_priority=is_low_priority
        )

    def _run_for_caller(
        self,
        name: str,
        body: WalkerInput,
        caller: Caller,
        answers: ProviderAnswers,
        send_reply: SendReply,
    ) -> Any:
        """Run a walker for a caller and return its reply.

        Raise the error that refuses the request if a field is invalid, if a read-only link does not
        permit the call, or if a limit of the user is reached. `send_reply` sends a reply before the
        run ends. `answers` has the answers of providers so far.
        """
        if (reader := self._field_readers.get(name)) is None:
            raise NotFound("There is no such walker.", code="unknown_endpoint")

        # A client's body is JSON, and so is its reply. The proxy sends and gets plain values.
        walker, reply = self.runtime.walkers[name], self.runtime.replies[name]
        encode = reply.encode if isinstance(body, bytes) else reply.value
        sent_fields = reader.parse(body)
        # The holder of a read-only link may only read the link's session.
        linked_session = caller.only_session  # None if the caller has no read-only link
        if linked_session is not None:
            check_shared(walker, sent_fields, linked_session)
        # Replace secrets in the messages. The first attempt uses these fields, later ones copies.
        fields = self._redact(sent_fields)
        first_copy = [fields]

        def read_fields() -> Mapping[str, Any]:
            """Return the fields for one attempt of the run, which may change them."""
            return first_copy.pop() if first_copy else self._redact(reader.parse(body))

        # Run the walker within the user's limits.
        self._set_permissions(name, caller)
        run = WalkerRun(
            name,
            read_fields,
            caller.root,
            encode,
            answers,
            send_early=lambda report: send_reply(encode({"reports": [report]})),
            can_write=linked_session is None,
        )
        has_limits = self._quotas.has_limits
        limits = self._quotas.reserve(caller, fields, body) if has_limits else nullcontext()
        with limits:
            result = self.runtime.run(run)
        # Record in the audit log what the walker did to the whole session, if it did.
        if event := getattr(walker, "log_event", ""):
            self.accounts.audit.record(event, caller.name, session=fields.get("session", ""))
        return result

    def _set_permissions(self, name: str, caller: Caller) -> None:
        """Let the walker sign share links for the caller, and read agents' files if allowed.

        Agents' files may be read only by the owner of the machine, over loopback.
        """
        SIGNER.set(self.accounts.signer(caller))
        if self._reads_agents_files(name):
            # `call_walker` has set it to whether the request came over loopback.
            IS_OWN_MACHINE.set(IS_OWN_MACHINE.get() and self._is_owner_of_machine(caller))

    def _reads_agents_files(self, name: str) -> bool:
        """Return whether the walker `name` is one that reads agents' files on this machine."""
        return getattr(self.runtime.walkers.get(name), "reads_agents_files", False)

    def _is_owner_of_machine(self, caller: Caller) -> bool:
        """Return whether a caller is the local user of a SQLite store, without a share link."""
        is_local_user = caller.name == LOCAL_USER and caller.only_session is None
        return is_local_user and isinstance(self.runtime.store, SqliteStore)

    def _redact(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields with secrets replaced, or unchanged if no rules are set."""
        return self._redaction.redact(fields) if self._redaction else fields


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


def _is_small(request: Request) -> bool:
    """Return whether the body is small enough to be read before the token is checked.

    Then the walker's thread also checks the token, and no second thread is needed.
    """
    length = request.headers.get("content-length", "")
    return length.isdecimal() and int(length) <= SMALL_BYTES


def build_app(data: Path, *, app: Path | None = None, is_only_worker: bool = True) -> Starlette:
    """Return the ASGI app of the service with the data folder `data`.

    It has the routes of the service, of the console's page and of the mounted proxy. While it
    runs, it also runs the periodic tasks. `app` is the folder of the Jac app (default: the
    package's own). `is_only_worker` is False if several processes serve the same port. The app's
    `state.service` is the Service.
    """
    # Create the service, and a proxy that calls its walkers in this process.
    settings = current_settings()
    if settings.otel:
        use_opentelemetry()
    service = Service(
        app or app_dir(), make_data_private(data), settings, is_only_worker=is_only_worker
    )
    proxy = mounted_proxy(settings, service.admission.admit_token, service.call_inside)
    failures = proxy.histories.failures
    failures.on_failure = lambda reason: service.metrics.fail_open.labels(reason).inc()
    proxied = [Route(path, proxy) for path in PATHS]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        """Run the periodic tasks; at the end, close the proxy and the service."""
        with (
            service.processor.main_thread(),
            run_periodically(
                "retention", service.retention.delete_in_turn, settings.gc_minutes * 60
            ),
            run_periodically("memory", MemoryTrimmer().trim, CHECK_SECONDS),
            run_periodically("figures", service.metrics.record_caches, CHECK_SECONDS),
            run_periodically("processor", service.processor.choose_processor, CHECK_SECONDS),
        ):
            yield
        await proxy.close()
        await asyncio.to_thread(service.close)

    # The first middleware counts and logs every request; the second one checks it and its body.
    starlette = Starlette(
        routes=[*service.routes(), *console_routes(), *proxied],
        middleware=[
            Middleware(service.metrics.requests.middleware),
            Middleware(Guard, bodies=service.admission.bodies),
        ],
        exception_handlers=REFUSALS,
        lifespan=lifespan,
    )
    starlette.router.redirect_slashes = False
    starlette.state.service = service
    return starlette

"""The front of a service: the way of each request from its arrival to its reply.

A request gets an id, a span, metrics and a line in the log. The front checks its host, limits its
body and finds its user. It runs walkers in threads; Starlette passes on requests to other routes.
Long because each request to a walker passes through all of this.
"""

import asyncio
import contextvars
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Final
from uuid import uuid4

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from contextrender_bridge.asgi import (
    REQUEST,
    App,
    ClientDisconnected,
    Message,
    Receive,
    RequestInfo,
    Scope,
    Send,
    error_fields,
    send_error,
)
from contextrender_bridge.base.errors import ContextRenderError, NotFound, Unauthorized
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.base.spans import span
from contextrender_bridge.client.connection import ServiceReply
from contextrender_bridge.engine.models.providers import ProviderAnswers
from contextrender_bridge.request_guards import BodyLimits, Guard, is_loopback
from contextrender_bridge.runtime.request import SIGNER, SendReply, Signer
from contextrender_bridge.server.accounts.callers import Caller
from contextrender_bridge.server.accounts.sign_in import SMALL, FindCaller, SignIn, check_shared
from contextrender_bridge.server.accounts.users import LOCAL_USER, Accounts
from contextrender_bridge.server.http.bodies import (
    Fields,
    WalkerInput,
    bearer_of,
    json_response,
    json_value,
    refusal,
)
from contextrender_bridge.server.limits.counting import Quotas
from contextrender_bridge.server.limits.redaction import Redaction
from contextrender_bridge.server.process.process_resources import OneProcessor
from contextrender_bridge.server.process.threads import Threads
from contextrender_bridge.server.runtime import Runtime, WalkerRun
from contextrender_bridge.server.watching.logs import log
from contextrender_bridge.sessions.ids import IS_OWN_MACHINE
from contextrender_bridge.store.sqlite import SqliteStore
from contextrender_bridge.store.writes import StoreUnavailable

TOKEN_THREADS: Final = 4
SMALL_BYTES: Final = 65_536
"""The largest body, in bytes, that is read before its token is checked. Most calls are smaller."""
REQUEST_ID: Final = "x-request-id"
VALID_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
BUCKET_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ROUTES: Final = frozenset({"user", "healthz", "metrics", "console", "v1", "s"})
DEBUG_ROUTES: Final = frozenset({"healthz", "metrics"})
"""The routes of health checks, which are logged only at level DEBUG."""


class RequestMetrics:
    """The metrics of the requests of one service."""

    def __init__(self, registry: CollectorRegistry, walkers: Iterable[str]) -> None:
        """Create the metrics in `registry`.

        The name of each of the `walkers` is a route in the metrics; other names are `unknown`.
        """
        self._walkers = frozenset(walkers)
        self._calls = Counter(
            "contextrender_calls",
            "Requests answered",
            ["route", "policy", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "contextrender_call_seconds",
            "Time to answer",
            ["route", "policy"],
            buckets=BUCKET_SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            "contextrender_render_tokens",
            "Tokens of histories before and after rendering",
            ["policy", "side"],
            registry=registry,
        )
        self._in_flight = Gauge(
            "contextrender_calls_in_flight",
            "Requests being answered",
            registry=registry,
            multiprocess_mode="livesum",
        )

    @contextmanager
    def watching(self, request: RequestInfo) -> Iterator[None]:
        """Count, time and log a request, which is answered in the block.

        Its status is 500 if the block ends without a reply.
        """
        started = time.perf_counter()
        self._in_flight.inc()
        try:
            yield
        finally:
            # Count and log the request, also after a failure.
            self._in_flight.dec()
            seconds, status = time.perf_counter() - started, request.status or 500
            self._calls.labels(request.route, request.policy, str(status)).inc()
            self._seconds.labels(request.route, request.policy).observe(seconds)
            fields = {"route": request.route, "status": status, "ms": round(seconds * 1e3, 1)}
            level = logging.DEBUG if request.route in DEBUG_ROUTES else logging.INFO
            log.log(level, "request answered", extra=fields)

    def count_rendered(self, walker: str, reports: list[Any]) -> None:
        """Count the tokens in the reports of `render`, and note the current request's policy.

        Ignore the reports of other walkers.
        """
        if walker != "render":
            return
        for view in reports:
            if (request := REQUEST.get()) is not None:
                request.policy = view.policy
            self._tokens.labels(view.policy, "before").inc(view.tokens_before)
            self._tokens.labels(view.policy, "after").inc(view.tokens_after)

    def route_of(self, path: str) -> str:
        """Return the route of a path for metrics; `unknown` for all unknown paths."""
        first, _, name = path.strip("/").partition("/")
        if first == "walker":
            return name if name in self._walkers else "unknown"
        return first if first in ROUTES else "unknown"


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
        self.bodies = BodyLimits(settings, SMALL)
        self._threads = ThreadPoolExecutor(TOKEN_THREADS, "token", initializer=begin)
        self.sign_in = SignIn(accounts, self.identify)

    def close(self) -> None:
        """Wait for the token checks and logins that have begun, and stop the threads."""
        self._threads.shutdown(wait=True)
        self.sign_in.close()

    def find_caller(self, request: Request) -> Caller | None:
        """Return the caller by the request's token, link or cookie; None if there is none.

        The bearer of a request is a token or the secret of a link. The cookie counts only without a
        bearer. This reads the store, so it must not run on the event loop.
        """
        token = bearer_of(request)
        if token or "cookie" not in request.headers:
            return self._accounts.caller(token) or self._accounts.visitor(token)
        return self.sign_in.find_caller(request)

    def admit(self, find_caller: FindCaller) -> Caller:
        """Return the caller, and count a call of that user. This blocks the thread.

        Raise Unauthorized if there is no caller, InvalidRequest (429) after too many calls.
        """
        caller = _identify(find_caller)
        if self._quotas.has_limits:
            self._quotas.check_call(caller)
        return caller

    def admit_async(self, find_caller: FindCaller) -> Awaitable[Caller]:
        """Run `admit` in a thread and return the caller. For use on the event loop."""
        return self._in_thread(lambda: self.admit(find_caller))

    def admit_token(self, token: str) -> Awaitable[Caller]:
        """Return a token's user, and count a call.

        Raise Unauthorized if the token is invalid, InvalidRequest (429) after too many calls.
        """
        return self.admit_async(lambda: self._accounts.caller(token))

    def identify(self, find_caller: FindCaller) -> Awaitable[Caller]:
        """Return the caller without counting a call. Raise Unauthorized if there is none."""
        return self._in_thread(lambda: _identify(find_caller))

    async def is_from_local_user(self, request: Request) -> bool:
        """Return whether a request has the local user's token; False if the store fails."""
        token = bearer_of(request)
        try:
            caller = await self._in_thread(lambda: self._accounts.caller(token))
        except StoreUnavailable:
            return False
        return caller is not None and caller.name == LOCAL_USER

    def _in_thread[T](self, work: Callable[[], T]) -> Awaitable[T]:
        """Run `work` in a thread of the pool, with this request's context variables."""
        context = contextvars.copy_context()
        return asyncio.get_running_loop().run_in_executor(self._threads, context.run, work)


class Front:
    """The way of all requests of a service, and the route of its walkers."""

    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        accounts: Accounts,
        registry: CollectorRegistry,
        processor: OneProcessor,
    ) -> None:
        """Run the walkers of `runtime` for the users of `accounts`.

        `registry` gets the metrics of the requests. Agents' calls run on the processor of
        `processor`.
        """
        self._runtime, self._accounts = runtime, accounts
        self._redaction = Redaction.of(settings.redact) if settings.redact else None
        self._quotas = Quotas(settings, runtime.store, accounts.counts)
        self.admission = Admission(accounts, self._quotas, settings, processor.add_thread)
        self._field_readers = {name: Fields(walker) for name, walker in runtime.walkers.items()}
        self._threads = Threads(settings, processor)
        self._metrics = RequestMetrics(registry, runtime.walkers)
        runtime.on_reports = self._metrics.count_rendered

    def close(self) -> None:
        """Wait for the requests that have begun, and stop the threads."""
        self.admission.close()
        self._threads.close()

    def middleware(self, app: App) -> App:
        """Return `app` with an id, a span, metrics, a log line and guards for every request.

        A ContextRenderError of `app` becomes a reply.
        """
        guard = Guard(app)

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            """Let `app` answer a request, or send the error that refuses it."""
            if scope["type"] != "http":  # For example, the events of startup and shutdown.
                await guard(scope, receive, send)
                return
            # Set the current request, so that later code can add its user and policy.
            request = RequestInfo(_id_of(scope), self._metrics.route_of(scope["path"]))
            request.server_address, *_ = scope.get("server") or ("",)
            REQUEST.set(request)

            async def send_with_id(message: Message) -> None:
                """Send a message. Note the status in the first one, and add the request's id."""
                if message["type"] == "http.response.start":
                    request.status = message["status"]
                    MutableHeaders(scope=message).setdefault(REQUEST_ID, request.id)
                await send(message)

            name = f"{scope['method']} {request.route}"
            with self._metrics.watching(request), span(name, scope["headers"]):
                try:
                    guard.check(scope)
                    with self.admission.bodies.reading(scope, receive) as limited_receive:
                        await app(scope, limited_receive, send_with_id)
                except (ClientDisconnected, ClientDisconnect):
                    pass  # Nobody waits for a reply.
                except ContextRenderError as error:
                    if request.status:  # A reply that has begun can only be broken off.
                        raise
                    await send_error(send_with_id, refusal(error, "request"))
                    # The error and its frames are a reference cycle. It would keep the request's
                    # data in memory until the next garbage collection.
                    error.__traceback__ = None

        return answer

    async def call_walker(self, request: Request) -> Response:
        """Answer `POST /walker/{name}`: run the walker for the user of the token.

        The caller is admitted before the body is read, unless the body is small.
        """
        find_caller = partial(self.admission.find_caller, request)
        caller = None if _is_small(request) else await self.admission.admit_async(find_caller)
        body = await request.body()

        def admit() -> Caller:
            """Return the caller. Admit it now, in the walker's thread, if that was not done yet."""
            return caller or self.admission.admit(find_caller)

        reply = await self._run_walker(request.path_params["name"], body, admit)
        return json_response(reply)

    async def get_node(self, request: Request, fields: Mapping[str, Any]) -> Any:
        """Return the reply of the walker `get_node` for the user of a request."""
        admit = partial(self.admission.admit, partial(self.admission.find_caller, request))
        return await self._run_walker("get_node", fields, admit)

    async def call_inside(
        self, name: str, fields: Mapping[str, Any], caller: Caller
    ) -> ServiceReply:
        """Run a walker for the mounted proxy, which has already admitted the caller.

        Return its reply, or an error as a reply with the error's status.
        """
        try:
            return ServiceReply(200, await self._run_walker(name, fields, lambda: caller))
        except ContextRenderError as error:
            return ServiceReply(error.status, json_value(error_fields(error)))

    async def _run_walker(self, name: str, body: WalkerInput, admit: Callable[[], Caller]) -> Any:
        """Run the walker `name` in a thread, and return its reply. Raise the error for the client.

        `admit` returns the request's user, or raises the error that refuses the request.
        """
        work = partial(self._run_for_caller, name, body)
        walker = self._runtime.walkers.get(name)
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
        walker, reply = self._runtime.walkers[name], self._runtime.replies[name]
        encode = reply.encode if isinstance(body, bytes) else reply.value
        sent_fields = reader.parse(body)
        # The holder of a read-only link may only read the link's session.
        linked_session = caller.only_session  # None if the caller has no read-only link
        if linked_session is not None:
            check_shared(walker, sent_fields, linked_session)
        # Replace secrets in the messages. Later attempts of the run read the fields again.
        fields = self._redact(sent_fields)

        # Run the walker within the user's limits.
        self._set_permissions(walker, caller)
        run = WalkerRun(
            name,
            fields,
            lambda: self._redact(reader.parse(body)),
            caller.root,
            encode,
            answers,
            send_early=send_reply,
            can_write=linked_session is None,
        )
        has_limits = self._quotas.has_limits
        limits = self._quotas.reserve(caller, fields, body) if has_limits else nullcontext()
        with limits:
            result = self._runtime.run(run)
        # Record in the audit log what the walker did to the whole session, if it did.
        if event := getattr(walker, "log_event", ""):
            self._accounts.audit.record(event, caller.name, session=fields.get("session", ""))
        return result

    def _set_permissions(self, walker: type, caller: Caller) -> None:
        """Let the walker sign share links for the caller, and read agents' files if allowed.

        Agents' files may be read only by the owner of the machine, over loopback.
        """
        sign = partial(self._accounts.tokens.link, caller.user, caller.generation)
        SIGNER.set(Signer(caller.generation, sign))
        if getattr(walker, "reads_agents_files", False):
            request = REQUEST.get()
            is_local = request is not None and is_loopback(request.server_address)
            IS_OWN_MACHINE.set(is_local and self._is_owner_of_machine(caller))

    def _is_owner_of_machine(self, caller: Caller) -> bool:
        """Return whether a caller is the local user of a SQLite store, without a share link."""
        is_local_user = caller.name == LOCAL_USER and caller.only_session is None
        return is_local_user and isinstance(self._runtime.store, SqliteStore)

    def _redact(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields with secrets replaced, or unchanged if no rules are set."""
        return self._redaction.redact(fields) if self._redaction else fields


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


def _id_of(scope: Scope) -> str:
    """Return the request's id from its header if it is valid, otherwise a new one."""
    request_id = Headers(scope=scope).get(REQUEST_ID, "")
    return request_id if VALID_ID.fullmatch(request_id) else uuid4().hex

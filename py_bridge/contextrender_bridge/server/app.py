"""The ASGI application: the walkers' route, and what all routes share."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
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
from contextrender_bridge.base.errors import ContextRenderError, NotFound
from contextrender_bridge.base.paths import app_dir, make_data_private
from contextrender_bridge.base.settings import Settings, current_settings
from contextrender_bridge.base.spans import use_opentelemetry
from contextrender_bridge.client.connection import ServiceReply
from contextrender_bridge.engine.models.providers import ProviderAnswers
from contextrender_bridge.request_guards import Guard
from contextrender_bridge.runtime.request import SIGNER, Tell
from contextrender_bridge.server.accounts.callers import Caller
from contextrender_bridge.server.accounts.sign_in import check_shared
from contextrender_bridge.server.accounts.users import Accounts
from contextrender_bridge.server.admission import Admission
from contextrender_bridge.server.http.bodies import (
    REFUSALS,
    Fields,
    WalkerInput,
    json_value,
    response_of,
)
from contextrender_bridge.server.http.pages import console_routes, graph_routes
from contextrender_bridge.server.limits.counting import Quotas
from contextrender_bridge.server.limits.redaction import Redaction
from contextrender_bridge.server.limits.retention import Retention
from contextrender_bridge.server.mounted_proxy import PATHS, mounted_proxy
from contextrender_bridge.server.process.process_resources import (
    LOOK_SECONDS,
    MemoryTrimmer,
    OneProcessor,
    now_and_then,
)
from contextrender_bridge.server.process.threads import Threads
from contextrender_bridge.server.runtime import Runtime, Walk
from contextrender_bridge.server.watching.metrics import Metrics
from contextrender_bridge.server.watching.readiness import Readiness

SMALL_BYTES: Final = 65_536
"""An agent's call brings only new messages, which are smaller. A stranger may send as much."""


class Service:
    """Walkers over HTTP, with what the other routes use."""

    def __init__(self, app: Path, data: Path, settings: Settings, *, alone: bool) -> None:
        """Load the Jac app over the store in `data`; `alone`: no other process serves it here."""
        self._redaction = Redaction.of(settings.redact) if settings.redact else None
        self.runtime = Runtime(app, data)
        try:
            self.accounts = Accounts(self.runtime, data)
        except BaseException:
            self.runtime.close()
            raise
        store = self.runtime.store
        self.processor = OneProcessor(settings.pin_cpu and alone)
        self.retention = Retention(self.runtime, self.accounts, settings)
        self.metrics = Metrics(store, data, self.runtime.walkers)
        self.retention.on_deleted = lambda reason: self.metrics.deletions.labels(reason).inc()
        self.runtime.on_reports = self.metrics.requests.rendered
        self.runtime.on_conflict = self.metrics.conflicts.inc
        store.on_refused = self.metrics.refused_writes.inc
        self._quotas = Quotas(settings, store, self.accounts.counts)
        self.admission = Admission(self.accounts, self._quotas, settings, self.processor.join)
        self._readiness = Readiness(
            store, data, settings, self.metrics, self.admission.is_local_users
        )
        self._fields = {name: Fields(walker) for name, walker in self.runtime.walkers.items()}
        self._threads = Threads(settings, self.processor)

    def routes(self) -> list[BaseRoute]:
        """Return all routes but the page's and the proxy's."""
        walkers = Route("/walker/{name}", self.call_walker, methods=["POST"])
        other_routes = (*self._readiness.routes(), *self.admission.sign_in.routes())
        return [walkers, *graph_routes(self._get_node), *other_routes]

    async def call_walker(self, request: Request) -> Response:
        """Answer `POST /walker/{name}`: run the walker for the bearer of the token."""
        question, name = self.admission.question(request), request.path_params["name"]
        caller = None if _is_small(request) else await self.admission.admitted(question)
        body = await request.body()
        reply = await self._run_walker(name, body, lambda: caller or self.admission.admit(question))
        return response_of(reply)

    async def _get_node(self, request: Request, fields: Mapping[str, Any]) -> Any:
        question = self.admission.question(request)
        admit = partial(self.admission.admit, question)
        return await self._run_walker("get_node", fields, admit)

    async def call_inside(
        self, name: str, fields: Mapping[str, Any], caller: Caller
    ) -> ServiceReply:
        """Return a walker's reply to the mounted proxy, which has counted the call already."""
        reply = await self._run_walker(name, fields, lambda: caller)
        if isinstance(reply, ContextRenderError):
            return ServiceReply(reply.status, json_value(error_fields(reply)))
        return ServiceReply(200, reply)

    def close(self) -> None:
        """Finish running walkers and close the store."""
        self._readiness.close()
        self.admission.close()
        self._threads.close()
        self.accounts.counts.close()
        self.runtime.close()

    async def _run_walker(self, name: str, body: WalkerInput, admit: Callable[[], Caller]) -> Any:
        work = partial(self._work, name, body)
        looks = getattr(self.runtime.walkers.get(name), "is_low_priority", False)
        return await self._threads.answer(f"walker {name}", admit, work, looks=looks)

    def _work(
        self, name: str, body: WalkerInput, caller: Caller, answers: ProviderAnswers, tell: Tell
    ) -> Any:
        if (reader := self._fields.get(name)) is None:
            raise NotFound("There is no such walker.", code="unknown_endpoint")

        walker, reply = self.runtime.walkers[name], self.runtime.replies[name]
        form = reply.encode if isinstance(body, bytes) else reply.value
        fields = reader.parse(body)
        if caller.only is not None:
            check_shared(walker, fields, caller.only)
        first = self._redacted(fields)
        parsed = [first]

        def read_fields() -> Mapping[str, Any]:
            return parsed.pop() if parsed else self._redacted(reader.parse(body))

        def tell_report(report: object) -> None:
            tell(form({"reports": [report]}))

        SIGNER.set(self.accounts.signer(caller))
        walk = Walk(name, read_fields, caller.root, form, answers, tell_report, caller.only is None)
        has_limits = self._quotas.has_limits
        with self._quotas.reserve(caller, first, body) if has_limits else nullcontext():
            result = self.runtime.run(walk)
        if event := getattr(walker, "log_event", ""):
            self.accounts.audit.note(event, caller.name, session=first.get("session", ""))
        return result

    def _redacted(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._redaction.redact(fields) if self._redaction else fields


def _is_small(request: Request) -> bool:
    """Return whether the body may be read before the token, which then needs no extra thread."""
    length = request.headers.get("content-length", "")
    return length.isdecimal() and int(length) <= SMALL_BYTES


def build_app(data: Path, *, app: Path | None = None, alone: bool = True) -> Starlette:
    """Return the service over the store in `data`, for any ASGI server.

    Its core is `state.service`.
    """
    settings = current_settings()
    if settings.otel:
        use_opentelemetry()
    service = Service(app or app_dir(), make_data_private(data), settings, alone=alone)
    proxy = mounted_proxy(settings, service.admission.of_token, service.call_inside)
    failures = proxy.histories.failures
    failures.on_failure = lambda reason: service.metrics.fail_open.labels(reason).inc()
    proxied = [Route(path, proxy) for path in PATHS]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        with (
            service.processor.first(),
            now_and_then("retention", service.retention.delete_in_turn, settings.gc_minutes * 60),
            now_and_then("memory", MemoryTrimmer().look, LOOK_SECONDS),
            now_and_then("figures", service.metrics.tell_caches, LOOK_SECONDS),
            now_and_then("processor", service.processor.choose, LOOK_SECONDS),
        ):
            yield
        await proxy.close()
        await asyncio.to_thread(service.close)

    starlette = Starlette(
        routes=[*service.routes(), *console_routes(), *proxied],
        middleware=[
            Middleware(service.metrics.requests.around),
            Middleware(Guard, bodies=service.admission.bodies),
        ],
        exception_handlers=REFUSALS,
        lifespan=lifespan,
    )
    starlette.router.redirect_slashes = False
    starlette.state.service = service
    return starlette

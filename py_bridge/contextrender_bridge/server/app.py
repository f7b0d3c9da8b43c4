"""The ASGI application of the service, which connects all of its parts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route

from contextrender_bridge.base.paths import app_dir, make_data_private
from contextrender_bridge.base.settings import Settings, current_settings
from contextrender_bridge.base.spans import use_opentelemetry
from contextrender_bridge.server.accounts.users import Accounts
from contextrender_bridge.server.front import Front
from contextrender_bridge.server.http.bodies import refuse_route
from contextrender_bridge.server.http.pages import console_routes, graph_routes
from contextrender_bridge.server.limits.retention import Retention
from contextrender_bridge.server.mounted_proxy import PATHS, mounted_proxy
from contextrender_bridge.server.process.process_resources import (
    CHECK_SECONDS,
    MemoryTrimmer,
    OneProcessor,
    run_periodically,
)
from contextrender_bridge.server.runtime import Runtime
from contextrender_bridge.server.watching.metrics import Metrics
from contextrender_bridge.server.watching.readiness import Readiness


class Service:
    """The service's walkers, its limits, and the parts that its routes share."""

    def __init__(self, app: Path, data: Path, settings: Settings, *, is_only_worker: bool) -> None:
        """Load the Jac app and open the store.

        `is_only_worker` is False if other processes serve the same port. Then the threads of this
        process are not kept on one processor.
        """
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
        self.metrics = Metrics(store, data)
        self.retention.on_deleted = lambda reason: self.metrics.deletions.labels(reason).inc()
        self.runtime.on_conflict = self.metrics.conflicts.inc
        store.on_refused = self.metrics.refused_writes.inc
        self.front = Front(
            settings, self.runtime, self.accounts, self.metrics.registry, self.processor
        )
        self._readiness = Readiness(
            store, data, settings, self.metrics, self.front.admission.is_from_local_user
        )

    def routes(self) -> list[BaseRoute]:
        """Return all routes except those of the console's page and the proxy."""
        front = self.front
        walkers = Route("/walker/{name}", front.call_walker, methods=["POST"])
        other_routes = (*self._readiness.routes(), *front.admission.sign_in.routes())
        return [walkers, *graph_routes(front.get_node), *other_routes]

    def close(self) -> None:
        """Wait for running walkers, then close the store."""
        self._readiness.close()
        self.front.close()
        self.accounts.counts.close()
        self.runtime.close()


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
    proxy = mounted_proxy(settings, service.front.admission.admit_token, service.front.call_inside)
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

    starlette = Starlette(
        routes=[*service.routes(), *console_routes(), *proxied],
        middleware=[Middleware(service.front.middleware)],
        exception_handlers={HTTPException: refuse_route},
        lifespan=lifespan,
    )
    starlette.router.redirect_slashes = False
    starlette.state.service = service
    return starlette

"""The asynchronous client: `await AsyncContextRender().render(session, messages)`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.client import connection
from contextrender_bridge.client.connection import Exchange, Flow, Outcome, ServiceReply, Step
from contextrender_bridge.client.core import Core

P = ParamSpec("P")
T = TypeVar("T")


def _method_of(
    flow: Callable[Concatenate[Core, P], Flow[T]],
) -> Callable[Concatenate[AsyncContextRender, P], Coroutine[Any, Any, T]]:
    """Return the client method that runs a flow of the core to its end."""

    @connection.with_signature_of(flow)
    async def method(client: AsyncContextRender, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client._drive(flow(client.core, *args, **kwargs))

    return method


class AsyncContextRender:
    """A connection to the service for one event loop; an asynchronous context manager.

    It has the methods of `ContextRender`; await them.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = connection.TIMEOUT,
        retries: int = connection.RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Take the arguments of `ContextRender`, and create the HTTP client.

        `transport` replaces the network, for example in tests. The environment's HTTP proxies are
        used only for another machine's address. A service that starts later is on this machine.
        """
        self.core = Core(url, token, retries=retries)
        self.failures = self.core.failures
        self._http = httpx.AsyncClient(
            timeout=timeout,
            **connection.network_options(self.url),
            transport=transport,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    @property
    def url(self) -> str:
        """The service's address; empty if none is known."""
        return self.core.url

    async def __aenter__(self) -> AsyncContextRender:
        """Return the client."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    render = _method_of(Core.render)
    fit = _method_of(Core.fit)
    sync = _method_of(Core.sync)
    find_session = _method_of(Core.find_session)
    explain = _method_of(Core.explain)
    recall = _method_of(Core.recall)
    list_sessions = _method_of(Core.list_sessions)
    inspect_session = _method_of(Core.inspect_session)
    export_session = _method_of(Core.export_session)
    import_session = _method_of(Core.import_session)
    delete_session = _method_of(Core.delete_session)
    call = _method_of(Core.call)

    async def _drive(self, flow: Flow[T]) -> T:
        """Run the steps of a flow to its end, and return its result.

        Send the outcome of each step into the flow, which raises it if it is an error.
        """
        with closing(flow):
            try:
                step = next(flow)
                while True:
                    step = flow.send(await self._run_step(step))
            except StopIteration as end:
                result: T = end.value
                return result

    async def _run_step(self, step: Step) -> Outcome:
        """Do one step, a request or a pause in seconds, and return its outcome."""
        if not isinstance(step, Exchange):
            return await asyncio.sleep(step, ServiceReply())
        try:
            return await asyncio.wait_for(self._post(step), step.seconds)
        except (TimeoutError, httpx.TransportError) as error:
            return connection.to_unreachable(self.url, step, error)
        except InvalidRequest as error:
            return error

    async def _post(self, step: Exchange) -> ServiceReply:
        """Send a request to the service, and return its reply."""
        body, headers = step.encode()
        response = await self._http.post(f"{self.url}{step.path}", content=body, headers=headers)
        return ServiceReply.read(response.status_code, response.content)

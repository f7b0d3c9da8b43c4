"""The asynchronous client: `await AsyncContextRender().render(session, messages)`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import closing
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from contextrender_bridge.base.errors import ContextRenderError, InvalidRequest
from contextrender_bridge.client import connection
from contextrender_bridge.client.connection import Answer, Exchange, Flow, Step
from contextrender_bridge.client.core import Core
from contextrender_bridge.client.credentials import is_local

P = ParamSpec("P")
T = TypeVar("T")


def _driven(
    flow: Callable[Concatenate[Core, P], Flow[T]],
) -> Callable[Concatenate[AsyncContextRender, P], Coroutine[Any, Any, T]]:
    """The client's method that drives a flow of the core to its end."""

    @connection.like(flow)
    async def method(client: AsyncContextRender, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client._drive(flow(client._core, *args, **kwargs))

    return method


class AsyncContextRender:
    """A connection to the service for one event loop; an asynchronous context manager.

    Its methods are those of `ContextRender`, to be awaited.
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
        self._core = Core(url, token, retries=retries)
        self.failures = self._core.failures
        self._http = httpx.AsyncClient(
            timeout=timeout,
            trust_env=bool(self.url) and not is_local(self.url),
            transport=transport,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    @property
    def url(self) -> str:
        """Where the service is; empty while none is known."""
        return self._core.url

    async def __aenter__(self) -> AsyncContextRender:
        """The client itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes it."""
        await self.close()

    async def close(self) -> None:
        """Gives back the connections."""
        await self._http.aclose()

    def recorded(
        self, session: str, messages: Sequence[Mapping[str, Any]], *, token: str | None, line: str
    ) -> int:
        """As `Core` has it: nothing is asked."""
        return self._core.recorded(session, messages, token=token, line=line)

    render = _driven(Core.render)
    fit = _driven(Core.fit)
    sync = _driven(Core.sync)
    explain = _driven(Core.explain)
    recall = _driven(Core.recall)
    list_sessions = _driven(Core.list_sessions)
    inspect_session = _driven(Core.inspect_session)
    export_session = _driven(Core.export_session)
    import_session = _driven(Core.import_session)
    delete_session = _driven(Core.delete_session)
    call = _driven(Core.call)

    async def _drive(self, flow: Flow[T]) -> T:
        with closing(flow):
            try:
                step = next(flow)
                while True:
                    got = await self._take(step)
                    step = flow.send(got) if isinstance(got, Answer) else flow.throw(got)
            except StopIteration as end:
                result: T = end.value
                return result

    async def _take(self, step: Step) -> Answer | ContextRenderError:
        if not isinstance(step, Exchange):
            return await asyncio.sleep(step, Answer())
        try:
            return await asyncio.wait_for(self._post(step), step.seconds)
        except (TimeoutError, httpx.TransportError) as error:
            return connection.lost(self.url, step, error)
        except InvalidRequest as error:
            return error

    async def _post(self, step: Exchange) -> Answer:
        got = await self._http.post(
            f"{self.url}{step.path}", content=step.body, headers=step.headers
        )
        return Answer.read(got.status_code, got.content)

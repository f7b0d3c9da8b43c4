"""The synchronous client: `ContextRender().render(session, messages)` before each model call."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Concatenate, ParamSpec, TypeVar

import httpx
from httpx import USE_CLIENT_DEFAULT

from contextrender_bridge.base.errors import ContextRenderError, InvalidRequest
from contextrender_bridge.client import connection
from contextrender_bridge.client.connection import Answer, Exchange, Flow, Step
from contextrender_bridge.client.core import Core
from contextrender_bridge.client.credentials import is_local

P = ParamSpec("P")
T = TypeVar("T")


def _driven(
    flow: Callable[Concatenate[Core, P], Flow[T]],
) -> Callable[Concatenate[ContextRender, P], T]:
    """The client's method that drives a flow of the core to its end."""

    @connection.like(flow)
    def method(client: ContextRender, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._drive(flow(client._core, *args, **kwargs))

    return method


class ContextRender:
    """A connection to the service; safe between threads, and a context manager.

    Every method answers with the reply as plain JSON values, typed in `replies`, or raises a
    `ContextRenderError`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = connection.TIMEOUT,
        retries: int = connection.RETRIES,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Address and token: as given, else from the environment, else those of the local server.

        `timeout` is in seconds; a call that could not reach the service, or found it busy, is made
        again up to `retries` times. `transport` reaches a service in this process
        (`embedded`). Where no service is known, `fit` gives whole histories back and the other
        methods raise NoCredentials until one has started. An address elsewhere without a token
        raises it at once.
        """
        self._core = Core(url, token, retries=retries)
        self.failures = self._core.failures
        self._http = httpx.Client(
            timeout=timeout,
            trust_env=bool(self.url) and not is_local(self.url),
            transport=transport,
        )

    @property
    def url(self) -> str:
        """Where the service is; empty while none is known."""
        return self._core.url

    def __enter__(self) -> ContextRender:
        """The client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

    def close(self) -> None:
        """Gives back the connections."""
        self._http.close()

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

    def _drive(self, flow: Flow[T]) -> T:
        with closing(flow):
            try:
                step = next(flow)
                while True:
                    got = self._take(step)
                    step = flow.send(got) if isinstance(got, Answer) else flow.throw(got)
            except StopIteration as end:
                result: T = end.value
                return result

    def _take(self, step: Step) -> Answer | ContextRenderError:
        if not isinstance(step, Exchange):
            time.sleep(step)
            return Answer()
        limit = USE_CLIENT_DEFAULT if step.seconds is None else step.seconds
        try:
            got = self._http.post(
                f"{self.url}{step.path}", content=step.body, headers=step.headers, timeout=limit
            )
        except httpx.TransportError as error:
            return connection.lost(self.url, step, error)
        except InvalidRequest as error:
            return error
        return Answer.read(got.status_code, got.content)

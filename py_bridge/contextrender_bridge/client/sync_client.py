"""The synchronous client: `ContextRender().render(session, messages)` before each model call."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Concatenate, ParamSpec, TypeVar

import httpx
from httpx import USE_CLIENT_DEFAULT

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.client import connection
from contextrender_bridge.client.connection import Exchange, Flow, Outcome, ServiceReply, Step
from contextrender_bridge.client.core import Core

P = ParamSpec("P")
T = TypeVar("T")


def _method_of(
    flow: Callable[Concatenate[Core, P], Flow[T]],
) -> Callable[Concatenate[ContextRender, P], T]:
    """Return the client method that runs a flow of the core to its end."""

    @connection.with_signature_of(flow)
    def method(client: ContextRender, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client._drive(flow(client.core, *args, **kwargs))

    return method


class ContextRender:
    """A connection to the service; safe between threads, and a context manager.

    Every method returns the reply as plain JSON values, with the types in `replies`, or raises a
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
        """Find the service by the arguments, then the environment, then the local server's file.

        `timeout` is in seconds. A call that does not reach the service, or finds it busy, is
        repeated up to `retries` times. `transport` connects to a service in this process
        (`embedded`).

        If no service is known, one may start later. Until then, `fit` returns full histories, and
        the other methods raise NoCredentials. If `url` is another machine's address and there is no
        token for it, this constructor raises NoCredentials.
        """
        self.core = Core(url, token, retries=retries)
        self.failures = self.core.failures
        self._http = httpx.Client(
            timeout=timeout,
            **connection.network_options(self.url),
            transport=transport,
        )

    @property
    def url(self) -> str:
        """The service's address; empty if none is known."""
        return self.core.url

    def __enter__(self) -> ContextRender:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

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

    def _drive(self, flow: Flow[T]) -> T:
        """Run the steps of a flow to its end, and return its result.

        Send the outcome of each step into the flow, which raises it if it is an error.
        """
        with closing(flow):
            try:
                step = next(flow)
                while True:
                    step = flow.send(self._run_step(step))
            except StopIteration as end:
                result: T = end.value
                return result

    def _run_step(self, step: Step) -> Outcome:
        """Do one step, a request or a pause in seconds, and return its outcome."""
        if not isinstance(step, Exchange):
            time.sleep(step)
            return ServiceReply()
        timeout = USE_CLIENT_DEFAULT if step.seconds is None else step.seconds
        try:
            body, headers = step.encode()
            response = self._http.post(
                f"{self.url}{step.path}", content=body, headers=headers, timeout=timeout
            )
        except httpx.TransportError as error:
            return connection.to_unreachable(self.url, step, error)
        except InvalidRequest as error:
            return error
        return ServiceReply.read(response.status_code, response.content)

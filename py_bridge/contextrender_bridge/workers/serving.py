"""A worker's HTTP server: uvicorn's, that hands connections to the worker they are for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from contextrender_bridge.workers.preference import preferred
from contextrender_bridge.workers.seat import Seat

LETTERS_AT_ONCE = 16
BEAT_SECONDS = 1.0


class HandingProtocol(HttpToolsProtocol):
    """Looks at each request's beginning, and hands the connection over if another is to answer.

    Only between requests, and without waiting: what does not name its session at once stays. Later
    requests of a connection that agents keep open find it where it belongs.
    """

    seat: ClassVar[Seat]
    handed: ClassVar[Callable[[], None]]
    begun: bytes = b""
    """What another worker has read of a connection already."""
    _mine: bool = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin with what another worker has read."""
        super().connection_made(transport)
        if self.begun and not transport.is_closing():
            super().data_received(self.begun)

    def data_received(self, data: bytes) -> None:
        """Answer here, unless another worker is to."""
        if self._mine or self._busy() or not self._hand_over(data):
            super().data_received(data)

    def on_message_begin(self) -> None:
        """The rest of this request is for this worker."""
        self._mine = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """The next one may be for another."""
        super().on_message_complete()
        self._mine = False

    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _hand_over(self, data: bytes) -> bool:
        to = preferred(data, self.seat.count)
        if to is None or to == self.seat.number or self.transport.is_closing():
            return False
        connection = self.transport.get_extra_info("socket").fileno()
        if not self.seat.hand_over(to, connection, data):
            return False
        self._unset_keepalive_if_required()
        # The other worker has it: here it ends without a word to the client.
        self.transport.abort()
        type(self).handed()
        return True


class SeatedServer(uvicorn.Server):
    """Serves in one of several workers, until it is told to stop or nobody is there to tell it."""

    def __init__(
        self, config: uvicorn.Config, seat: Seat, is_open: Callable[[], bool] = lambda: True
    ) -> None:
        """`config`'s protocol is one made by `handing`. An app that is not open when the server has
        started tells by itself when it is.
        """
        super().__init__(config)
        self._seat = seat
        self._is_open = is_open

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens, to the other workers too."""
        await super().startup(sockets)
        if self.started:
            loop = asyncio.get_running_loop()
            loop.add_reader(self._seat.letters, self._take)
            loop.add_reader(self._seat.alive, self._stop)
            self._beat()
            if self._is_open():
                self._seat.tell_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Leaves what is handed over to whoever comes next."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._seat.letters)
        loop.remove_reader(self._seat.alive)
        await super().shutdown(sockets)

    def _beat(self) -> None:
        """Tells, until the process ends, that this loop goes round."""
        self._seat.beat()
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)

    def _take(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(LETTERS_AT_ONCE):
            letter = self._seat.take()
            if letter is None:
                return
            begun, connection = letter
            task = loop.create_task(self._welcome(begun, socket.socket(fileno=connection)))
            self.server_state.tasks.add(task)
            task.add_done_callback(self.server_state.tasks.discard)

    async def _welcome(self, begun: bytes, connection: socket.socket) -> None:
        def protocol() -> Any:
            made: Any = self.config.http_protocol_class
            new = made(
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )
            new.begun = begun
            return new

        connection.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)

    def _stop(self) -> None:
        self.should_exit = True


def handing(
    protocol: type[Any], seat: Seat, handed: Callable[[], None] = lambda: None
) -> type[Any]:
    """That protocol, handing connections to the workers they are for; `handed` counts them."""
    own = {"seat": seat, "handed": staticmethod(handed)}
    return type("Handing", (HandingProtocol, protocol), own)

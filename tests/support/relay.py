"""A wire between a program and PostgreSQL that counts how often the program waits for an answer."""

import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"


class Relay:
    """Passes bytes on, both ways; each change of direction towards the server is a round trip."""

    def __init__(self, folder: Path, server: Path) -> None:
        """Listens in `folder` for a server whose socket is in another."""
        self.round_trips = 0
        self._server = server / SOCKET
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / SOCKET))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """No new connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One connection; bytes that come in several pieces are one way of one round trip."""
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self._server))
        answered = True
        with client, server, selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in ready.select():
                    source, target = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    data = source.recv(65_536)
                    if not data:
                        return
                    if source is client and answered:
                        self.round_trips += 1
                    answered = source is server
                    target.sendall(data)


@contextmanager
def relayed(address: str, folder: Path) -> Iterator[tuple[Relay, str]]:
    """A relay to a cluster's socket, and the address that leads through it."""
    (server,) = parse_qs(urlsplit(address).query)["host"]
    relay = Relay(folder, Path(server))
    try:
        yield relay, address.replace(server, str(folder))
    finally:
        relay.close()

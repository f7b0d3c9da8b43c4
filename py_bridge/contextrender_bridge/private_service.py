"""A private server of a program: it starts and ends with a block, and ends with the program.

    with embedded() as service, service.client() as client:
        client.render("my-session", messages)

The program itself loads neither Jac nor the store. It needs the `[server]` extra.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_serve
from contextrender_bridge.base.paths import data_dir
from contextrender_bridge.client import AsyncContextRender, ContextRender
from contextrender_bridge.client.connection import TIMEOUT
from contextrender_bridge.local_service import STOP_SECONDS

_SERVE = (
    "import sys; from contextrender_bridge.server.process.private_server import main;"
    " sys.exit(main(sys.argv[1]))"
)


@dataclass(frozen=True)
class PrivateService:
    """The address of a private server on loopback, and the only token that was made for it."""

    url: str
    token: str = field(repr=False)

    def client(self, *, timeout: float = TIMEOUT) -> ContextRender:
        """Return a synchronous client of the server."""
        return ContextRender(self.url, self.token, timeout=timeout)

    def async_client(self, *, timeout: float = TIMEOUT) -> AsyncContextRender:
        """Return an asynchronous client of the server."""
        return AsyncContextRender(self.url, self.token, timeout=timeout)


@contextmanager
def embedded(data: Path | str | None = None) -> Iterator[PrivateService]:
    """Start a private server over the folder `data`, and stop it at the end of the block.

    Without `data`, use the data folder of `contextrender serve`. Raise CommandError if the folder
    cannot be created or written, if the server does not start, or if the server's packages are not
    installed.
    """
    if importlib.util.find_spec("jaclang") is None:
        raise CommandError(f"embedded() needs the server: {how_to_serve()}.")
    # `-P`: the program's folder may have modules named `nodes` or `graph`, as the app has.
    command = [sys.executable, "-P", "-c", _SERVE, str(Path(data) if data else data_dir())]
    # The server runs in a new session, so that Ctrl-C reaches only the program. Its input is a
    # pipe of the program, which also ends if the program dies.
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as server:
        assert server.stdin and server.stdout
        try:
            yield _read_address(server.stdout.readline())
        finally:
            # The server stops when its input ends.
            server.stdin.close()
            try:
                server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()


@asynccontextmanager
async def embedded_async(data: Path | str | None = None) -> AsyncIterator[AsyncContextRender]:
    """Start a private server as `embedded` does, and yield a client of it."""
    with embedded(data) as service:
        async with service.async_client() as client:
            yield client


def _read_address(line: bytes) -> PrivateService:
    """Return the address that a started server wrote. Raise CommandError if it did not start."""
    if not line:
        raise CommandError("the private server did not start; its reason is on stderr.")
    fields = json.loads(line)
    if sentence := fields.get("error"):
        raise CommandError(sentence)
    return PrivateService(fields["url"], fields["token"])

"""A command's listening socket, which is open before its address is printed, and its server."""

import errno
import socket
from typing import TYPE_CHECKING, Any

from contextrender_bridge.base.errors import CommandError

if TYPE_CHECKING:
    from uvicorn import Config

BACKLOG = 512

STATUS_PATH = "/contextrender/status"
"""The path at which a standalone proxy reports its status; only the proxy answers there."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. Port 0 takes a free one.

    Raise CommandError if that is impossible, for example because the port is in use.
    """
    if not 0 <= port < 2**16:
        raise CommandError(f"cannot listen on port {port}: ports go up to 65535.")
    try:
        # Take the first address of the host, which may be of IPv4 or IPv6.
        family, kind, _, _, socket_address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(socket_address)
        listener.listen(BACKLOG)
    except (OSError, UnicodeError) as error:  # An impossible host name raises UnicodeError.
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise CommandError(
                f"port {port} of {host} is in use: stop what listens there, or take another with "
                "--port (0 takes a free one)."
            ) from None
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"cannot listen on {host} port {port}: {reason}.") from None
    return listener


def address(listener: socket.socket, name: str = "") -> str:
    """Return the URL of a listening socket for clients of this machine.

    If a host `name` is given, it replaces the socket's address. An address of all interfaces
    becomes the loopback address.
    """
    host_address, port = listener.getsockname()[:2]
    host = name or host_address
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def http_config(app: Any, **options: Any) -> "Config":
    """Return uvicorn's settings for an ASGI app of ours. `options` override these defaults."""
    from uvicorn import Config

    defaults: dict[str, Any] = {
        "log_config": None,
        "access_log": False,
        "ws": "none",
        "server_header": False,
        "date_header": False,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": 10,
    }
    return Config(app, **{**defaults, **options})

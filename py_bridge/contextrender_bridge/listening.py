"""The listening socket of a command, taken before it says where it is."""

from __future__ import annotations

import socket

from contextrender_bridge.errors import CommandError

BACKLOG = 512

STATUS_PATH = "/contextrender/status"
"""Where the proxy on its own tells how it does: nothing else answers there so."""


def listen(host: str, port: int) -> socket.socket:
    """A socket on that address; port 0 takes a free one. Raises CommandError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"cannot listen on {host} port {port}: {reason}.") from None


def address(listener: socket.socket) -> str:
    """Where it is, as the beginning of a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

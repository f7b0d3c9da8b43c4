"""The user of the process at the other end of a loopback connection.

The proxy uses its own token for programs that send none. Over loopback they may be programs of any
user of the machine, so it reads from the kernel (Linux, `sock_diag`) whose socket the other end is.
A program of the same user could read the token's file anyway. On other systems, the secret in a
link, which only that user can read, proves the same.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

from contextrender_bridge.base.paths import make_data_private, secret_in

SECRET_FILE = "proxy_secret"

_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8
_UID_AT = 80
"""The position of the user in the answer: after two headers, the socket's id and three counters."""


def is_same_user(scope: Any) -> bool:
    """Return whether an ASGI request comes from a process of the same user on this machine."""
    client, server = scope.get("client"), scope.get("server")
    if not client or not server or server[1] is None:
        return False
    try:
        near, far = _plain(client[0]), _plain(server[0])
    except ValueError:
        return False
    if not near.is_loopback or near.version != far.version:
        return False
    return user_of((near, client[1]), (far, server[1])) == own_user()


def own_user() -> int | None:
    """Return this process's user, None on systems without users."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def user_of(local: tuple[Any, int], remote: tuple[Any, int]) -> int:
    """Return the user whose process has a TCP socket on this machine, -1 if it is unknown.

    `local` and `remote` are the socket's own ends: (address, port).
    """
    family = socket.AF_INET if local[0].version == 4 else socket.AF_INET6
    ports = struct.pack("!HH", local[1], remote[1])
    ends = local[0].packed.ljust(16, b"\0") + remote[0].packed.ljust(16, b"\0")
    socket_id = ports + ends + struct.pack("=I", 0) + _NO_COOKIE
    query = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES) + socket_id
    header = struct.pack("=IHHII", 16 + len(query), _BY_FAMILY, _REQUEST, 1, 0)
    with (
        suppress(OSError, AttributeError),
        socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel,
    ):
        kernel.settimeout(1.0)
        kernel.sendto(header + query, (0, 0))
        answer = kernel.recv(4096)
        if len(answer) >= _UID_AT + 4 and struct.unpack_from("=H", answer, 4)[0] == _BY_FAMILY:
            return int(struct.unpack_from("=I", answer, _UID_AT)[0])
    return -1


def link_secret(folder: Path) -> str:
    """Return the secret of this user's links to the proxy, which only the user can read."""
    return secret_in(make_data_private(folder) / SECRET_FILE)


def _plain(address: str) -> IPv4Address | IPv6Address:
    parsed = ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed

"""Which user's process is at the other end of a loopback connection.

The proxy lends its own token to those who bring none. Over loopback these are programs of any user
of the machine, so it asks the kernel (Linux, `sock_diag`) whose socket the other end is. A request
of the same user could read the token's file as well: lending it adds nothing. Where the kernel
cannot be asked, the link's secret, which that user alone can read, says the same.
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
"""In the answer: behind two headers, the socket's id, and three counters of 4 bytes."""


def is_same_user(scope: Any) -> bool:
    """Whether an ASGI request comes from a process of this process's user on this machine."""
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
    """This process's user; None on systems without."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def user_of(local: tuple[Any, int], remote: tuple[Any, int]) -> int:
    """The user whose process has the TCP socket between two addresses of this machine; -1: unknown.

    `local` and `remote` (address, port) are as that socket has them.
    """
    family = socket.AF_INET if local[0].version == 4 else socket.AF_INET6
    ports = struct.pack("!HH", local[1], remote[1])
    ends = local[0].packed.ljust(16, b"\0") + remote[0].packed.ljust(16, b"\0")
    which = ports + ends + struct.pack("=I", 0) + _NO_COOKIE
    asked = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES) + which
    header = struct.pack("=IHHII", 16 + len(asked), _BY_FAMILY, _REQUEST, 1, 0)
    with (
        suppress(OSError, AttributeError),
        socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel,
    ):
        kernel.settimeout(1.0)
        kernel.sendto(header + asked, (0, 0))
        answer = kernel.recv(4096)
        if len(answer) >= _UID_AT + 4 and struct.unpack_from("=H", answer, 4)[0] == _BY_FAMILY:
            return int(struct.unpack_from("=I", answer, _UID_AT)[0])
    return -1


def link_secret(folder: Path) -> str:
    """The secret of this user's links to the proxy, kept in `folder` for its owner alone."""
    return secret_in(make_data_private(folder) / SECRET_FILE)


def _plain(address: str) -> IPv4Address | IPv6Address:
    found = ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found

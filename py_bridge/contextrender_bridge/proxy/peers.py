"""The user of the process at the other end of a loopback connection.

The proxy lends its own token to programs of its own user that send no token. Programs of any user
of the machine can connect over loopback. So on Linux the proxy asks the kernel (`sock_diag`) which
user owns the socket at the other end. On other systems, a program proves its user by a secret in
its link, which only that user can read. Lending the token reveals nothing: a program of the same
user can read the token's file anyway.
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
_UID_OFFSET = 80
"""The byte offset of the user id in the kernel's answer."""


def is_same_user(scope: Any) -> bool:
    """Return whether an ASGI request comes from a process of this process's user.

    Return False if it does not come over loopback, or if the kernel does not report the user.
    """
    # Each is a pair of address and port.
    client, server = scope.get("client"), scope.get("server")
    if not client or not server or server[1] is None:
        return False
    try:
        client_address, server_address = _parse_address(client[0]), _parse_address(server[0])
    except ValueError:
        return False
    is_same_version = client_address.version == server_address.version
    if not client_address.is_loopback or not is_same_version:
        return False
    # The client's socket is on this machine, too. Ask who owns it.
    return user_of((client_address, client[1]), (server_address, server[1])) == own_user()


def own_user() -> int | None:
    """Return the user id of this process, or None on systems without user ids."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def user_of(local: tuple[Any, int], remote: tuple[Any, int]) -> int:
    """Return the id of the user who owns a TCP socket on this machine, or -1 if it is unknown.

    `local` is the address and port of the socket itself, `remote` those of the socket it is
    connected to. Send the kernel a `sock_diag` query for this socket, and read the user id from its
    answer.
    """
    family = socket.AF_INET if local[0].version == 4 else socket.AF_INET6
    # The following bytes are the structures `inet_diag_sockid`, `inet_diag_req_v2` and `nlmsghdr`.
    ports = struct.pack("!HH", local[1], remote[1])
    addresses = local[0].packed.ljust(16, b"\0") + remote[0].packed.ljust(16, b"\0")
    any_interface = struct.pack("=I", 0)
    socket_id = ports + addresses + any_interface + _NO_COOKIE
    query = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES) + socket_id
    header = struct.pack("=IHHII", 16 + len(query), _BY_FAMILY, _REQUEST, 1, 0)
    # Systems without `sock_diag` raise one of these errors.
    with (
        suppress(OSError, AttributeError),
        socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _SOCK_DIAG) as kernel,
    ):
        kernel.settimeout(1.0)
        kernel.sendto(header + query, (0, 0))
        answer = kernel.recv(4096)
        # An answer without such a socket is shorter, or has another type at byte 4.
        if len(answer) >= _UID_OFFSET + 4 and struct.unpack_from("=H", answer, 4)[0] == _BY_FAMILY:
            return int(struct.unpack_from("=I", answer, _UID_OFFSET)[0])
    return -1


def link_secret(folder: Path) -> str:
    """Return the secret of this user's links to the proxy, which only the user can read."""
    return secret_in(make_data_private(folder) / SECRET_FILE)


def _parse_address(address: str) -> IPv4Address | IPv6Address:
    """Return an IP address; an IPv4 address that is written as an IPv6 one becomes IPv4."""
    parsed = ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed

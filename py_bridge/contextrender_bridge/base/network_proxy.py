"""The network proxy that the environment names for an address (`HTTPS_PROXY`, `NO_PROXY`)."""

import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

_ENTRY = re.compile(r"(?:\w+://)?(?:\[([^\]]+)\]|([^:/]*))(/\d+)?(?::(\d+))?/?")
"""An entry of `NO_PROXY`: an address or a name, the length of a network's prefix, a port."""


def network_proxy_of(url: str, proxies: Mapping[str, str] | None = None) -> str | None:
    """Return the address of the network proxy for a URL, or None to connect directly.

    `proxies` has the form of the result of `getproxies`, which maps schemes to addresses. If it is
    None, take the environment's.
    """
    proxies = getproxies() if proxies is None else proxies
    parts = urlsplit(url)
    proxy = (proxies.get(parts.scheme) or proxies.get("all") or "").strip()
    if not proxy or _is_excluded(parts.hostname or "", parts.port, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_excluded(host: str, port: int | None, no_proxy: str) -> bool:
    """Return whether `NO_PROXY` or the system's settings exclude a host from network proxies.

    Entries are separated by commas or spaces. A name includes its subdomains. An address may be a
    network such as `10.0.0.0/8`. Both may have a port. `*` stands for every host.
    """
    entries = re.split(r"[\s,;]+", no_proxy.lower())
    return bool(proxy_bypass(host)) or any(
        entry and _matches(entry, host.lower(), port) for entry in entries
    )


def _matches(entry: str, host: str, port: int | None) -> bool:
    """Return whether an entry of `NO_PROXY` matches a host and its port.

    An entry without a port matches every port.
    """
    # Divide the entry into a name, or an address with the length of a network, and a port.
    name, entry_port = entry, None
    if match := _ENTRY.fullmatch(entry):  # all entries but IPv6 addresses without brackets
        address_in_brackets, name_or_address, prefix_length, entry_port = match.groups()
        name = (address_in_brackets or name_or_address) + (prefix_length or "")
    if entry_port and int(entry_port) != port:
        return False
    # `*.example.org` and `.example.org` mean the same as `example.org`.
    name = name.removeprefix("*").removeprefix(".")
    try:
        return ip_address(host) in ip_network(name, strict=False)
    except ValueError:  # The host or the entry is a name.
        is_host_or_parent = bool(name) and (host == name or host.endswith(f".{name}"))
        return entry == "*" or is_host_or_parent

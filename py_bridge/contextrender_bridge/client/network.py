"""The network between a client and its service."""

from __future__ import annotations

from typing import Any

import httpx

from contextrender_bridge.base.network_proxy import network_proxy_of
from contextrender_bridge.client.credentials import is_local


def network_options(url: str) -> dict[str, Any]:
    """Return the options of an httpx client for an address.

    They name the environment's network proxy and certificates, unless the address is unknown or
    this machine's, which is reached directly. httpx must not read the environment itself
    (`trust_env`), because it fails for some valid values of `NO_PROXY`.
    """
    options: dict[str, Any] = {"trust_env": False}
    if url and not is_local(url):
        options |= {"proxy": network_proxy_of(url), "verify": httpx.create_ssl_context()}
    return options

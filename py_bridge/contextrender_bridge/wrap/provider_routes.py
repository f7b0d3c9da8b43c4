"""The routes of a wrapped agent: an address on a loopback port for each of its providers.

All routes share one port and require a secret. It is in the path, or, if the address is in an
argument that other users of the machine can read, in a header.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.client.credentials import LOOPBACK
from contextrender_bridge.listening import STATUS_PATH

PREFIX = "/w/"
TOKEN = "CONTEXTRENDER_WRAP_TOKEN"
"""The variable of the agent's environment with the token of the recall tool's route."""
LINK = "x-contextrender-link"
"""The header with the secret, for agents that take headers from variables."""
LINK_VARIABLE = "CONTEXTRENDER_WRAP_LINK"
BEARER = {"Authorization": f"Bearer ${{{TOKEN}}}"}
"""The header with that token, for agents that replace variables in headers."""


@dataclass
class ProviderRoutes:
    """The routes of one agent at `origin`. `upstreams` has the providers' addresses by route name.

    With `has_recall` there is a recall tool at `mcp_url`. `offers_recall` is set once the agent is
    given that address.
    """

    origin: str
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(18), repr=False)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    has_recall: bool = True
    offers_recall: bool = False
    upstreams: dict[str, str] = field(default_factory=dict)

    @classmethod
    def example(cls) -> ProviderRoutes:
        """Return routes with placeholders, as `--dry-run` shows them."""
        return cls("http://127.0.0.1:PORT", "SECRET", "TOKEN")

    def route_to(self, upstream: str, name: str = "") -> str:
        """Return the address of a route to a provider.

        A request to `ROUTE/v1/messages` is forwarded to `UPSTREAM/messages`, so `upstream` includes
        the version, and the route does not. The route's address ends in `name`, if one is given.
        Raise CommandError if `upstream` is not an address, or is ContextRender itself.
        """
        return f"{self.origin}{PREFIX}{self.secret}/{self._route_name(upstream, name)}"

    def route_by_header(self, upstream: str) -> str:
        """Return the address of a route without the secret, for agents that send it in a header."""
        return f"{self.origin}{PREFIX}{self._route_name(upstream)}"

    def _route_name(self, upstream: str, name: str = "") -> str:
        """Return the name of the provider's route; a new one gets `name`, or else a number."""
        upstream = _checked_address(upstream)
        for route, address in self.upstreams.items():
            if address == upstream:
                return route
        route = name or str(len(self.upstreams))
        self.upstreams[route] = upstream
        return route

    def route_with_version(self, base: str, *, messages: bool) -> str:
        """Return the address for a client to use instead of `base`, with `/v1` if it expects that.

        Anthropic's clients (`messages`) add `/v1/messages` themselves, unless their base address
        ends in `/v1`. Raise CommandError as `route_to` does.
        """
        if messages and not base.rstrip("/").endswith("/v1"):
            return self.route_to(with_version(base))
        return f"{self.route_to(base)}/v1"

    @property
    def mcp_url(self) -> str:
        """The address of the recall tool, which requires `token`. Sets `offers_recall`."""
        self.offers_recall = True
        return f"{self.origin}{PREFIX}mcp"


def with_version(base: str) -> str:
    """Return an Anthropic base address, to which clients add `/v1/messages`, with the version."""
    return f"{base.rstrip('/')}/v1"


def _checked_address(upstream: str) -> str:
    """Return a provider's address without its last slash. Raise CommandError as `route_to` does."""
    upstream = upstream.rstrip("/")
    try:
        parts = urlsplit(upstream)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        raise CommandError(
            f"the provider's address {upstream!r} is not an http:// or https:// address."
        )
    origin = f"{parts.scheme}://{parts.netloc}"
    if parts.hostname in LOOPBACK and _is_contextrender(origin, parts.path):
        raise CommandError(
            f"{origin} is ContextRender already, so wrap would forward to "
            "itself. Remove that address from the agent's configuration, or run it without wrap."
        )
    return upstream


def _is_contextrender(origin: str, path: str) -> bool:
    """Return whether an address is a route of another wrap, or a proxy answers there."""
    if path.startswith(PREFIX):
        return True
    try:
        reply = httpx.get(f"{origin}{STATUS_PATH}", timeout=1.0, trust_env=False)
        return reply.is_success and "fail_open" in reply.json()
    except (httpx.HTTPError, ValueError, TypeError):
        return False

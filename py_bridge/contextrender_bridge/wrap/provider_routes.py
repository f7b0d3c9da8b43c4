"""Makes the routes of a wrapped agent: a loopback address for each of its providers.

All routes share one port and require a secret, which is in the path of the address. But other users
of the machine can read command-line arguments. So if an argument has the address, the secret is in
a header instead.
"""

import secrets
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.client.credentials import LOOPBACK
from contextrender_bridge.listening import STATUS_PATH

PREFIX = "/w/"
TOKEN = "CONTEXTRENDER_WRAP_TOKEN"
"""The variable, in the agent's environment, with the token for the recall tool."""
LINK = "x-contextrender-link"
"""The header that has the secret, for agents that can take a header's value from a variable."""
LINK_VARIABLE = "CONTEXTRENDER_WRAP_LINK"
BEARER = {"Authorization": f"Bearer ${{{TOKEN}}}"}
"""The header with the recall tool's token, for agents that replace variables in headers."""


@dataclass
class ProviderRoutes:
    """The routes of one agent at the local address `origin`.

    `upstreams` maps each route's name to the provider's address. With `serves_recall`, there is a
    recall tool at `mcp_url`. `agent_has_recall` becomes true when `mcp_url` is read, because only
    the configuration of an agent that will use the tool has this address.
    """

    origin: str
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(18), repr=False)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    serves_recall: bool = True
    agent_has_recall: bool = False
    upstreams: dict[str, str] = field(default_factory=dict)

    @classmethod
    def example(cls) -> "ProviderRoutes":
        """Return routes with placeholders, as `--dry-run` shows them."""
        return cls("http://127.0.0.1:PORT", "SECRET", "TOKEN")

    def route_to(self, upstream: str, name: str = "") -> str:
        """Return the address of a route to a provider.

        A request to `ROUTE/v1/messages` is forwarded to `UPSTREAM/messages`. So `upstream` must
        include the version, such as `/v1`, and the route does not have it. If the provider has no
        route yet, add one, whose address ends in `name` if that is given. Raise CommandError if
        `upstream` is not an address, or if ContextRender itself answers there.
        """
        return f"{self.origin}{PREFIX}{self.secret}/{self._route_name(upstream, name)}"

    def route_by_header(self, upstream: str) -> str:
        """Return the address of a route to a provider, as `route_to` does, but without the secret.

        It is for agents that send the secret in a header.
        """
        return f"{self.origin}{PREFIX}{self._route_name(upstream)}"

    def _route_name(self, upstream: str, name: str = "") -> str:
        """Return the name of the provider's route. Add a route if there is none.

        A new route is called `name`, or by a number if `name` is empty.
        """
        upstream = _checked_address(upstream)
        for route, address in self.upstreams.items():
            if address == upstream:
                return route
        route = name or str(len(self.upstreams))
        self.upstreams[route] = upstream
        return route

    def route_with_version(self, base: str, *, messages: bool) -> str:
        """Return the address that a client must use instead of its provider's address `base`.

        The returned address ends in `/v1`, because most clients expect the version in the address.
        The exception is Anthropic's API (`messages`) with a `base` that has no version: there the
        client adds `/v1` itself. Raise CommandError as `route_to` does.
        """
        if messages and not base.rstrip("/").endswith("/v1"):
            return self.route_to(with_version(base))
        return f"{self.route_to(base)}/v1"

    @property
    def mcp_url(self) -> str:
        """The address of the recall tool, which requires `token`.

        Reading this property sets `agent_has_recall`.
        """
        self.agent_has_recall = True
        return f"{self.origin}{PREFIX}mcp"


def with_version(base: str) -> str:
    """Return a base address of Anthropic's API with the version `/v1` appended."""
    return f"{base.rstrip('/')}/v1"


def _checked_address(upstream: str) -> str:
    """Return a provider's address without slashes at its end.

    Raise CommandError if it is not an address, or if ContextRender itself answers there.
    """
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
    # Forwarding to another `wrap` or proxy on this machine would make a loop.
    origin = f"{parts.scheme}://{parts.netloc}"
    if parts.hostname in LOOPBACK and _is_contextrender(origin, parts.path):
        raise CommandError(
            f"{origin} is ContextRender already, so wrap would forward to "
            "itself. Remove that address from the agent's configuration, or run it without wrap."
        )
    return upstream


def _is_contextrender(origin: str, path: str) -> bool:
    """Return whether an address is a route of another `wrap`, or a proxy of ContextRender.

    A route has a typical path. A proxy is recognized by its reply to a request for its status.
    """
    if path.startswith(PREFIX):
        return True
    try:
        reply = httpx.get(f"{origin}{STATUS_PATH}", timeout=1.0, trust_env=False)
        return reply.is_success and "fail_open" in reply.json()
    except (httpx.HTTPError, ValueError, TypeError):
        return False

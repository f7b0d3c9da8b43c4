"""The addresses a wrapped agent talks to: a door for each provider it is set up for.

All are on one loopback port, for those who bring a secret: in the path, or where the address would
stand in an argument, which other users of the machine can read, in a header.
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
"""The variable of the agent's environment with the token of the recall tool's door."""
LINK = "x-contextrender-link"
"""The header with the secret, for agents that take headers from variables of their environment."""
LINK_VARIABLE = "CONTEXTRENDER_WRAP_LINK"
BEARER = {"Authorization": f"Bearer ${{{TOKEN}}}"}
"""The header with it, for agents that fill in variables."""


@dataclass
class ProviderRoutes:
    """The doors of one agent at `origin`. `upstreams` are the providers' addresses by door.

    `recalls` says whether there is a recall tool to offer, at `mcp_url`, and `offered` whether the
    agent has it.
    """

    origin: str
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(18), repr=False)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    recalls: bool = True
    offered: bool = False
    upstreams: dict[str, str] = field(default_factory=dict)

    @classmethod
    def imagined(cls) -> ProviderRoutes:
        """Those that `--dry-run` shows."""
        return cls("http://127.0.0.1:PORT", "SECRET", "TOKEN")

    def open(self, upstream: str, called: str = "") -> str:
        """The address of a door to a provider. Raises CommandError when that is ContextRender.

        `upstream` and the door are addresses without `/v1`, or with whatever stands for it: what
        comes to `DOOR/v1/messages` goes to `UPSTREAM/messages`. The door's address ends in
        `called`, where the agent looks at that.
        """
        return f"{self.origin}{PREFIX}{self.secret}/{self._name(upstream, called)}"

    def open_by_header(self, upstream: str) -> str:
        """Return the address of a door without the secret, which a header brings then."""
        return f"{self.origin}{PREFIX}{self._name(upstream)}"

    def _name(self, upstream: str, called: str = "") -> str:
        upstream = _checked(upstream)
        name = next((key for key, known in self.upstreams.items() if known == upstream), "")
        if not name:
            name = called or str(len(self.upstreams))
            self.upstreams[name] = upstream
        return name

    def versioned(self, base: str, *, messages: bool) -> str:
        """The address to give a client in place of `base`, with `/v1` where its kind expects it.

        Anthropic's clients (`messages`) add `/v1/messages` themselves, unless what they were given
        ends in `/v1`. Raises CommandError.
        """
        if messages and not base.rstrip("/").endswith("/v1"):
            return self.open(with_version(base))
        return f"{self.open(base)}/v1"

    @property
    def mcp_url(self) -> str:
        """Where the recall tool is, for the bearer of `token`; whoever asks offers it."""
        self.offered = True
        return f"{self.origin}{PREFIX}mcp"


def with_version(base: str) -> str:
    """An Anthropic-style base address, to which clients add `/v1/messages`, with its version."""
    return f"{base.rstrip('/')}/v1"


def _checked(upstream: str) -> str:
    upstream = upstream.rstrip("/")
    try:
        parts = urlsplit(upstream)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        known = False
    if not known:
        raise CommandError(f"{upstream!r} is no provider's address.")
    if parts.hostname in LOOPBACK and _is_ours(f"{parts.scheme}://{parts.netloc}", parts.path):
        raise CommandError(
            f"{parts.scheme}://{parts.netloc} is ContextRender already: wrap would stand in front "
            "of itself. Take that address out of the agent's configuration, or run it without wrap."
        )
    return upstream


def _is_ours(origin: str, path: str) -> bool:
    if path.startswith(PREFIX):
        return True
    try:
        reply = httpx.get(f"{origin}{STATUS_PATH}", timeout=1.0, trust_env=False)
        return reply.is_success and "fail_open" in reply.json()
    except (httpx.HTTPError, ValueError, TypeError):
        return False

"""The proxy's settings: environment variables, which the command line overrides."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from contextrender_bridge.client.fitting import DEADLINE
from contextrender_bridge.errors import CommandError

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"
MODES = ("render", "observe", "bypass")


@dataclass(frozen=True)
class ProxySettings:
    """How one proxy works.

    `upstream` and `anthropic_upstream` are the providers' base addresses, with their version.
    `deadline` is how long, in seconds, a model call may wait for its plan. `budget`, `policy`,
    `mode` and `recall` are what a request gets that does not say otherwise.
    """

    upstream: str = OPENAI
    anthropic_upstream: str = ANTHROPIC
    budget: int | None = None
    policy: str | None = None
    mode: str = "render"
    recall: bool = False
    deadline: float = DEADLINE

    @classmethod
    def from_environment(cls) -> ProxySettings:
        """`CONTEXTRENDER_UPSTREAM`, `..._ANTHROPIC_UPSTREAM`, `..._BUDGET` and so on."""
        budget = _get("BUDGET")
        mode = _get("MODE") or "render"
        if mode not in MODES:
            raise CommandError(f"CONTEXTRENDER_MODE must be one of {', '.join(MODES)}.")
        if budget and not (budget.isdecimal() and int(budget)):
            raise CommandError("CONTEXTRENDER_BUDGET must be a whole number above 0.")
        return cls(
            upstream=base_address(_get("UPSTREAM") or OPENAI),
            anthropic_upstream=base_address(_get("ANTHROPIC_UPSTREAM") or ANTHROPIC),
            budget=int(budget) if budget else None,
            policy=_get("POLICY") or None,
            mode=mode,
            recall=_get("RECALL").lower() in ("1", "true", "yes", "on"),
            deadline=_seconds(_get("DEADLINE")),
        )


def base_address(text: str) -> str:
    """A provider's base address; `/v1` where it names a host alone. Raises CommandError."""
    parts = urlsplit(text.rstrip("/"))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CommandError(f"{text!r} is no address: it must begin with http:// or https://.")
    return text.rstrip("/") if parts.path else f"{text.rstrip('/')}/v1"


def _seconds(text: str) -> float:
    try:
        seconds = float(text or DEADLINE)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 3600:
        raise CommandError("CONTEXTRENDER_DEADLINE must be a number of seconds above 0.")
    return seconds


def _get(name: str) -> str:
    return os.environ.get(f"CONTEXTRENDER_{name}", "").strip()

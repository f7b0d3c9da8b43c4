"""Whether a service answers."""

from __future__ import annotations

import httpx

ANSWER_SECONDS = 1.0


def answers(url: str, seconds: float = ANSWER_SECONDS) -> bool:
    """Whether a service of ours answers there."""
    try:
        reply = httpx.get(f"{url}/healthz", timeout=seconds, trust_env=False)
        return bool(reply.is_success and reply.json().get("status") == "ok")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError):
        return False

"""Hermes Agent: a plugin that fits each model call's history into a budget.

`register` is what Hermes calls; the settings are in its configuration, at
`plugins.entries.contextrender`. Hermes' own session keeps every message.
"""

from __future__ import annotations

from typing import Any

from hermes_cli.config import load_config

from contextrender_bridge.adapters.planning import Planner
from contextrender_bridge.base.wire import Json

NAME = "contextrender"
DIALECTS = {
    "chat_completions": "chat",
    "codex_responses": "responses",
    "anthropic_messages": "messages",
}
"""By what Hermes calls the API that a request is for; others are left alone."""
SETTINGS = ("budget", "policy", "parameters", "deadline")


class ContextRenderMiddleware:
    """Shows the model what the service chooses of the history. Takes what `Planner` takes."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._planner = Planner(*args, **settings)

    def __call__(
        self, *, request: Json, session_id: str = "", api_mode: str = "", **_: Any
    ) -> Json | None:
        """The request with what is shown of its history; None: as it is."""
        dialect = DIALECTS.get(api_mode)
        if dialect is None:
            return None
        fit = self._planner.fit(request, session=session_id or None, dialect=dialect)
        return {"request": dict(fit.body), "source": NAME} if fit.changed else None


def register(context: Any) -> None:
    """Adds the middleware to Hermes."""
    plugins = load_config().get("plugins") or {}
    entry = (plugins.get("entries") or {}).get(NAME) or {}
    # Hermes keeps settings of its own there, too.
    settings = {name: entry[name] for name in SETTINGS if name in entry}
    context.register_middleware("llm_request", ContextRenderMiddleware(**settings))

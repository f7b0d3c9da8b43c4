"""Hermes Agent: a plugin that fits each model call's history into a budget.

`register` is what Hermes calls; the settings are in its configuration, at
`plugins.entries.contextrender`. Hermes' own session keeps every message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hermes_cli.config import load_config

from contextrender_bridge.adapters.planning import Json, Planner

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
        read, originals = _read(request)
        fit = self._planner.fit(read, session=session_id or None, dialect=dialect)
        if not fit.changed:
            return None
        left = dict(fit.body)
        if originals:
            left["messages"] = [originals.get(id(item), item) for item in fit.messages]
        return {"request": left, "source": NAME}


def register(context: Any) -> None:
    """Adds the middleware to Hermes."""
    plugins = load_config().get("plugins") or {}
    entry = (plugins.get("entries") or {}).get(NAME) or {}
    # Hermes keeps settings of its own there, too.
    settings = {name: entry[name] for name in SETTINGS if name in entry}
    context.register_middleware("llm_request", ContextRenderMiddleware(**settings))


def _read(request: Json) -> tuple[Mapping[str, Any], dict[int, Any]]:
    """The request without the tools' names on their results, and by identity the originals.

    Hermes does not store those names: a session that is resumed would be another history.
    """
    messages = request.get("messages")
    if not isinstance(messages, list):
        return request, {}
    read = [_nameless(message) for message in messages]
    # `read` is kept alive by the request: its identities stay its own.
    originals = {id(item): message for item, message in zip(read, messages, strict=True)}
    return {**request, "messages": read}, originals


def _nameless(message: Any) -> Any:
    if not isinstance(message, dict) or message.get("role") != "tool" or "name" not in message:
        return message
    return {key: value for key, value in message.items() if key != "name"}

"""Hermes: redirected by a managed folder for this run, which overrides the user's configuration.

Hermes merges `HERMES_MANAGED_DIR` over `config.yaml` key by key, so the provider keeps its key,
headers and body. The settings of an administrator's managed folder are copied into the run's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.wrap.agents.base import (
    MCP_NAME,
    Agent,
    Redirect,
    RunRequest,
    first_command,
    is_question,
    merged,
    run_unchanged,
    table,
)
from contextrender_bridge.wrap.agents.hermes_settings import (
    VARIABLE,
    HermesSettings,
    read_hermes_settings,
)
from contextrender_bridge.wrap.provider_routes import BEARER, TOKEN, ProviderRoutes, with_version

KNOWN_PROVIDERS = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "deepseek": ("DEEPSEEK_BASE_URL", "https://api.deepseek.com/v1"),
    "openai-api": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "openrouter": ("OPENROUTER_BASE_URL", "https://openrouter.ai/api/v1"),
    "xai": ("XAI_BASE_URL", "https://api.x.ai/v1"),
    "zai": ("GLM_BASE_URL", "https://api.z.ai/api/paas/v4"),
}
"""Hermes' built-in providers that the proxy supports: the variable of the address, the address."""

NO_RECALL = (
    "no recall tool: Hermes connects to MCP servers only if its own config.yaml names one. Add one "
    "with `hermes mcp add`."
)
MCP_SECONDS = 15.0
"""The time limit for MCP servers. Hermes' default of 1.5 may be too short to import its client."""
COPIED_FIELDS = ("api_mode", "transport", "api_key", "key_env")
MODE_BY_HOST = {"api.openai.com": "codex_responses", "api.x.ai": "codex_responses"}
MODE_BY_HOST["api.anthropic.com"] = "anthropic_messages"
MESSAGES = "anthropic_messages"


class Hermes(Agent):
    """Hermes Agent."""

    program = "hermes"
    install = "uv tool install 'hermes-agent[mcp]'"
    has_bare_calls = True

    def redirect(self, request: RunRequest, routes: ProviderRoutes) -> Redirect:
        """Return the run with a route to the provider that it is set to use."""
        if is_question(request.arguments, "-V") or first_command(request.arguments) not in (
            "",
            "chat",
        ):
            return run_unchanged(request)
        settings = read_hermes_settings(request)
        _route_provider(settings, routes)
        result = Redirect(list(request.arguments), {VARIABLE: str(request.folder)})
        if routes.has_recall and not settings.asks_mcp:
            result.notes.append(NO_RECALL)
        elif routes.has_recall:
            server = {"url": routes.mcp_url, "headers": BEARER}
            settings.overlay["mcp_servers"] = {MCP_NAME: server}
            settings.overlay["mcp_discovery_timeout"] = _mcp_timeout(settings)
            result.environment[TOKEN] = routes.token
        config = merged(settings.managed, settings.overlay)
        result.files[request.folder / "config.yaml"] = json.dumps(config)  # JSON is YAML
        lines = [
            f"{key}={value}\n" for key, value in {**settings.managed_env, **settings.env}.items()
        ]
        result.files[request.folder / ".env"] = "".join(lines)
        return result


def _route_provider(settings: HermesSettings, routes: ProviderRoutes) -> None:
    """Add to the overlay what sends the provider's calls to its route. Raise CommandError."""
    name = settings.provider
    for key, entry in _named_provider(settings, name):
        base = settings.expanded(entry[key])
        mode = entry.get("api_mode") or entry.get("transport")
        entry |= {
            key: _route(base, mode or _mode(base), routes),
            **_key_variable(settings, base, entry),
        }
        if not mode and _mode(base):
            entry["api_mode"] = _mode(base)
        return
    if name in KNOWN_PROVIDERS:
        _route_known_provider(settings, name, routes)
    elif base := _bare_address(settings, name):
        _route_bare_address(settings, name if name != "auto" else "custom", base, routes)
    else:
        raise CommandError(
            f"wrap knows no address of Hermes' provider {name!r}. Set one with `hermes model`, "
            "or set providers.NAME.base_url in Hermes' configuration."
        )


def _mcp_timeout(settings: HermesSettings) -> float:
    """Return how many seconds Hermes waits for MCP servers, at least as long as the user set."""
    user_timeout = settings.config.get("mcp_discovery_timeout")
    return (
        max(MCP_SECONDS, float(user_timeout))
        if isinstance(user_timeout, int | float)
        else MCP_SECONDS
    )


def _named_provider(settings: HermesSettings, name: str) -> Iterator[tuple[str, Json]]:
    """Yield the address key and the overlay's entry of a provider that the user has defined."""
    plain_name = name.removeprefix("custom:")
    for id, entry in table(settings.config.get("providers")).items():
        if isinstance(entry, dict) and plain_name in (_plain(id), _plain(entry.get("name"))):
            for key in ("api", "url", "base_url"):
                if entry.get(key):
                    copied_fields = {k: entry[k] for k in (key, *COPIED_FIELDS) if entry.get(k)}
                    settings.overlay["providers"] = {id: copied_fields}
                    yield key, copied_fields
    custom_providers = settings.config.get("custom_providers")
    # Hermes replaces a list as a whole. Only this user can read the copy; it is deleted later.
    custom_copy = [
        dict(item) if isinstance(item, dict) else item for item in custom_providers or ()
    ]
    for entry in custom_copy if isinstance(custom_providers, list) else ():
        is_match = isinstance(entry, dict) and plain_name == _plain(entry.get("name"))
        if is_match and entry.get("base_url"):
            settings.overlay["custom_providers"] = custom_copy
            yield "base_url", entry


def _route_known_provider(settings: HermesSettings, name: str, routes: ProviderRoutes) -> None:
    """Add the route of a built-in provider to the overlay or the `.env`. Raise CommandError."""
    variable, default_address = KNOWN_PROVIDERS[name]
    is_configured = str(settings.model.get("provider") or "").lower() == name
    configured_address = (
        settings.expanded(settings.model.get("base_url"))
        if is_configured and name != "openrouter"
        else ""
    )
    base = configured_address or settings.variables.get(variable) or default_address
    mode = (settings.model.get("api_mode") if is_configured else "") or _mode(base)
    if name == "openrouter":
        if not any(settings.variables.get(key) for key in ("OPENROUTER_API_KEY", "OPENAI_API_KEY")):
            raise CommandError("wrap needs OPENROUTER_API_KEY in the environment or Hermes' .env.")
        settings.env[variable] = _route(base, mode, routes)
        return
    if name == "anthropic":  # Hermes accepts other addresses only if they end in /anthropic
        address = base if base.rstrip("/").endswith("/v1") else with_version(base)
        route = routes.route_to(address, name)
    else:
        route = _route(base, mode, routes)
    model = {"provider": name, "base_url": route}
    settings.overlay["model"] = model | ({"api_mode": mode} if mode else {})
    if settings.variables.get(variable):
        settings.env[variable] = route


def _bare_address(settings: HermesSettings, name: str) -> str:
    """Return the address of a provider that is neither defined nor built in; empty if none is set.

    `custom` and local servers have one; `auto` has one if it is not the address of a known cloud.
    """
    base = settings.expanded(
        settings.variables.get("CUSTOM_BASE_URL") or settings.model.get("base_url")
    )
    cloud = _host(base).endswith(("openrouter.ai", "anthropic.com", "openai.com"))
    local = name in ("custom", "ollama", "vllm", "llamacpp")
    return base if local or (name == "auto" and not cloud) else ""


def _route_bare_address(
    settings: HermesSettings, name: str, base: str, routes: ProviderRoutes
) -> None:
    """Add a provider with this address, and Hermes' key for its host, to the overlay."""
    configured_mode = settings.model.get("api_mode")
    # Hermes accepts `codex_responses` for such an address only if it is OpenAI's or xAI's.
    mode = (
        (configured_mode if configured_mode != "codex_responses" else "")
        or _mode(base)
        or "chat_completions"
    )
    entry: Json = {"base_url": _route(base, mode, routes), "api_mode": mode}
    key = settings.model.get("api_key") or settings.model.get("api")
    entry |= {"api_key": str(key)} if key else _key_variable(settings, base, entry)
    settings.overlay |= {"providers": {name: entry}, "model": {"provider": name}}


def _key_variable(settings: HermesSettings, base: str, entry: Json) -> dict[str, str]:
    """Return the field that names the variable of the host's key, if no other key is set."""
    labels = _host(base).split(".")
    vendor = labels[-2].upper().replace("-", "_") if len(labels) > 1 else ""
    has_key = entry.get("api_key") or settings.variables.get(str(entry.get("key_env") or ""))
    variable = f"{vendor}_API_KEY"
    return {} if has_key or not settings.variables.get(variable) else {"key_env": variable}


def _route(base: str, mode: object, routes: ProviderRoutes) -> str:
    return routes.route_with_version(base, messages=mode == MESSAGES)


def _mode(base: str) -> str:
    """Return the API mode that Hermes derives from an address; empty if it derives none."""
    path = urlsplit(base.lower()).path.rstrip("/")
    messages = path.endswith(("/anthropic", "/anthropic/v1"))
    return MODE_BY_HOST.get(_host(base)) or (MESSAGES if messages else "")


def _host(base: str) -> str:
    return (urlsplit(base).hostname or "").lower()


def _plain(name: object) -> str:
    return str(name or "").strip().lower().replace(" ", "-")

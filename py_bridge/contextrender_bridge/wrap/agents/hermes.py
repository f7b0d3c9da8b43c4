"""Hermes: redirected by a managed folder, made for one run, that overrides the configuration.

Hermes merges `HERMES_MANAGED_DIR` over `config.yaml` key by key, so the provider keeps its key,
headers and body. The settings of an administrator's managed folder are copied into the run's.
Long because Hermes finds a provider's address in four places, each with rules of its own.
"""

import json
from urllib.parse import urlsplit

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.wrap.agents.base import (
    MCP_NAME,
    Agent,
    Redirect,
    RunRequest,
    as_object,
    merge,
)
from contextrender_bridge.wrap.agents.hermes_settings import (
    MANAGED_FOLDER_VARIABLE,
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
ADDRESS_FIELDS = ("api", "url", "base_url")
"""Fields of a provider that may have its address. The first that is set is used."""
COPIED_FIELDS = ("api_mode", "transport", "api_key", "key_env")
"""Fields of a provider that its entry in the overlay needs, too."""
MESSAGES, RESPONSES = "anthropic_messages", "codex_responses"
MODE_BY_HOST = {"api.openai.com": RESPONSES, "api.x.ai": RESPONSES, "api.anthropic.com": MESSAGES}
"""Hermes' API modes for hosts that need another than `chat_completions`."""


class Hermes(Agent):
    """Hermes Agent, redirected by a managed folder that is made for the run."""

    program = "hermes"
    install = "uv tool install 'hermes-agent[mcp]'"
    has_bare_calls = True

    def redirect(self, request: RunRequest, routes: ProviderRoutes) -> Redirect:
        """Return the run with a route to its configured provider, and with the recall tool.

        For this run, write a managed folder with the administrator's settings and ours: Hermes
        reads it with priority over the user's settings. Raise CommandError if the provider cannot
        be redirected.
        """
        if request.asks_help_or_version("-V") or request.command not in ("", "chat"):
            return request.run_unchanged()
        settings = read_hermes_settings(request)
        _route_provider(settings, routes)
        result = Redirect(list(request.arguments), {MANAGED_FOLDER_VARIABLE: str(request.folder)})
        # Hermes does not connect to our server if the user's own configuration names no server.
        if routes.serves_recall and not settings.has_mcp_servers:
            result.notes.append(NO_RECALL)
        elif routes.serves_recall:
            server = {"url": routes.mcp_url, "headers": BEARER}
            settings.overlay["mcp_servers"] = {MCP_NAME: server}
            user_timeout = settings.config.get("mcp_discovery_timeout")
            user_seconds = user_timeout if isinstance(user_timeout, int | float) else 0.0
            settings.overlay["mcp_discovery_timeout"] = max(MCP_SECONDS, float(user_seconds))
            result.environment[TOKEN] = routes.token

        # Write both files of the managed folder.
        config = merge(settings.managed, settings.overlay)
        result.files[request.folder / "config.yaml"] = json.dumps(config)  # JSON is YAML
        variables = {**settings.managed_env, **settings.env}
        lines = [f"{name}={value}\n" for name, value in variables.items()]
        result.files[request.folder / ".env"] = "".join(lines)
        return result


def _route_provider(settings: HermesSettings, routes: ProviderRoutes) -> None:
    """Redirect the configured provider: add its route to the run's settings.

    The route is added to `settings.overlay` or `settings.env`, depending on where the address is
    found. Raise CommandError if no address is found.
    """
    name = settings.provider
    plain_name = name.removeprefix("custom:")
    # An entry of the user has priority over a built-in provider of the same name.
    own_provider = _copied_provider(settings, plain_name)
    own_provider = own_provider or _copied_custom_provider(settings, plain_name)
    if own_provider:
        _route_own_provider(settings, *own_provider, routes)
    elif name == "openrouter":
        _route_openrouter(settings, routes)
    elif name in KNOWN_PROVIDERS:
        _route_known_provider(settings, name, routes)
    elif base := _bare_address(settings, name):
        # `auto` lets Hermes choose a provider, so it cannot name the entry with the route.
        provider = "custom" if name == "auto" else name
        _route_bare_address(settings, provider, base, routes)
    else:
        raise CommandError(
            f"wrap knows no address of Hermes' provider {name!r}. Set one with `hermes model`, "
            "or set providers.NAME.base_url in Hermes' configuration."
        )


def _copied_provider(settings: HermesSettings, plain_name: str) -> tuple[Json, str] | None:
    """Copy a provider's entry in the user's `providers` into the overlay, to be changed there.

    Return the copy and the name of its field with the address. Return None if there is no such
    entry, or if it has no address. `plain_name` is the name as `_plain` returns it.
    """
    for id, entry in as_object(settings.config.get("providers")).items():
        if not isinstance(entry, dict):
            continue
        if plain_name not in (_plain(id), _plain(entry.get("name"))):
            continue
        address_field = next((name for name in ADDRESS_FIELDS if entry.get(name)), None)
        if address_field:
            fields = (address_field, *COPIED_FIELDS)
            entry_copy = {field: entry[field] for field in fields if entry.get(field)}
            settings.overlay["providers"] = {id: entry_copy}
            return entry_copy, address_field
    return None


def _copied_custom_provider(settings: HermesSettings, plain_name: str) -> tuple[Json, str] | None:
    """Copy the user's list `custom_providers` into the overlay if it has an entry for a provider.

    Return the copied entry, to be changed there, and the name of its field with the address. Return
    None if there is no such entry. The whole list is copied, because Hermes replaces whole lists.
    It may have keys, but only this user can read the copy, which is deleted after the run.
    """
    custom_providers = settings.config.get("custom_providers")
    if not isinstance(custom_providers, list):
        return None
    list_copy = [dict(item) if isinstance(item, dict) else item for item in custom_providers]
    for entry in list_copy:
        is_match = isinstance(entry, dict) and plain_name == _plain(entry.get("name"))
        if is_match and entry.get("base_url"):
            settings.overlay["custom_providers"] = list_copy
            return entry, "base_url"
    return None


def _route_own_provider(
    settings: HermesSettings, entry: Json, address_field: str, routes: ProviderRoutes
) -> None:
    """Replace the address in a copied entry by a route, and add what the entry lacks.

    That is the API mode and the variable with the key. Hermes would derive them from the provider's
    address, but it cannot derive them from a route.
    """
    base = settings.expanded(entry[address_field])
    mode = entry.get("api_mode") or entry.get("transport")
    entry |= _key_variable(settings, base, entry)
    entry[address_field] = _route(base, mode or _mode(base), routes)
    if not mode and _mode(base):
        entry["api_mode"] = _mode(base)


def _route_known_provider(settings: HermesSettings, name: str, routes: ProviderRoutes) -> None:
    """Add the route of a built-in provider to the overlay.

    The address is from the configuration, the provider's variable or `KNOWN_PROVIDERS`. If the
    variable is set, it gets the route, too, so that Hermes does not read the old address from it.
    """
    variable, default_address = KNOWN_PROVIDERS[name]
    model = _model_section(settings, name)
    configured_address = settings.expanded(model.get("base_url"))
    base = configured_address or settings.variables.get(variable) or default_address
    mode = model.get("api_mode") or _mode(base)
    if name == "anthropic":
        # A route forwards `/v1/messages` to `messages` below its address, which thus needs `/v1`.
        # Hermes accepts another address than Anthropic's only if it ends in `/anthropic`, so the
        # route gets this name.
        address = base if base.rstrip("/").endswith("/v1") else with_version(base)
        route = routes.route_to(address, name)
    else:
        route = _route(base, mode, routes)
    settings.overlay["model"] = {"provider": name, "base_url": route}
    if mode:
        settings.overlay["model"]["api_mode"] = mode
    if settings.variables.get(variable):
        settings.env[variable] = route


def _route_openrouter(settings: HermesSettings, routes: ProviderRoutes) -> None:
    """Add the route of OpenRouter to the run's variables, because Hermes reads it only from there.

    Raise CommandError if OpenRouter has no key.
    """
    if not any(settings.variables.get(key) for key in ("OPENROUTER_API_KEY", "OPENAI_API_KEY")):
        raise CommandError("wrap needs OPENROUTER_API_KEY in the environment or Hermes' .env.")
    variable, default_address = KNOWN_PROVIDERS["openrouter"]
    base = settings.variables.get(variable) or default_address
    mode = _model_section(settings, "openrouter").get("api_mode") or _mode(base)
    settings.env[variable] = _route(base, mode, routes)


def _model_section(settings: HermesSettings, provider: str) -> Json:
    """Return the configuration's `model` section if it is for this provider, otherwise {}."""
    is_configured = str(settings.model.get("provider") or "").lower() == provider
    return settings.model if is_configured else {}


def _bare_address(settings: HermesSettings, name: str) -> str:
    """Return the address of a provider that has no entry in the configuration and is not built in.

    The names `custom`, `auto` and those of local servers stand for the address in a variable or in
    the `model` section. But `auto` ignores the address of a cloud provider. Return "" then, and for
    any other name.
    """
    base = settings.expanded(
        settings.variables.get("CUSTOM_BASE_URL") or settings.model.get("base_url")
    )
    is_cloud = _host(base).endswith(("openrouter.ai", "anthropic.com", "openai.com"))
    is_local_or_custom = name in ("custom", "ollama", "vllm", "llamacpp")
    is_auto = name == "auto" and not is_cloud
    return base if is_local_or_custom or is_auto else ""


def _route_bare_address(
    settings: HermesSettings, name: str, base: str, routes: ProviderRoutes
) -> None:
    """Add an entry for the provider `name` to the overlay: a route to `base`, a mode and a key.

    The API mode is the configured one. But Hermes ignores the configured mode `RESPONSES` if the
    address is not OpenAI's or xAI's, so then the mode is derived from the address. The key is the
    configured one, or in the variable for the host.
    """
    mode = settings.model.get("api_mode")
    if not mode or mode == RESPONSES:
        mode = _mode(base) or "chat_completions"
    entry: Json = {"base_url": _route(base, mode, routes), "api_mode": mode}
    key = settings.model.get("api_key") or settings.model.get("api")
    entry |= {"api_key": str(key)} if key else _key_variable(settings, base, entry)
    settings.overlay |= {"providers": {name: entry}, "model": {"provider": name}}


def _key_variable(settings: HermesSettings, base: str, entry: Json) -> dict[str, str]:
    """Return a field to add to a provider's entry: `key_env`, the variable with the API key.

    Hermes derives the variable's name from the host of the address, such as `ACME_API_KEY` for
    `api.acme.com`. Return no field if `entry` already has a key, or if the variable is not set.
    """
    if entry.get("api_key") or settings.variables.get(str(entry.get("key_env") or "")):
        return {}
    labels = _host(base).split(".")
    vendor = labels[-2].upper().replace("-", "_") if len(labels) > 1 else ""
    variable = f"{vendor}_API_KEY"
    return {"key_env": variable} if settings.variables.get(variable) else {}


def _route(base: str, mode: object, routes: ProviderRoutes) -> str:
    """Return the route to a provider's address `base`, as clients of this API mode expect it.

    It ends in `/v1`, unless the mode is `MESSAGES` and `base` has no version.
    """
    return routes.route_with_version(base, messages=mode == MESSAGES)


def _mode(base: str) -> str:
    """Return the API mode that Hermes derives from an address, or "" if it derives none."""
    path = urlsplit(base.lower()).path.rstrip("/")
    is_messages = path.endswith(("/anthropic", "/anthropic/v1"))
    return MODE_BY_HOST.get(_host(base)) or (MESSAGES if is_messages else "")


def _host(base: str) -> str:
    """Return the host of an address in lower case; empty if it has none."""
    return (urlsplit(base).hostname or "").lower()


def _plain(name: object) -> str:
    """Return a provider's name as Hermes compares names: in lower case, with `-` for spaces."""
    return str(name or "").strip().lower().replace(" ", "-")

"""Codex: redirected by `-c`, which changes the provider's address and no other setting.

Other users of the machine can read arguments, so the secret is not in the address but in a header,
whose value Codex takes from a variable. For a configured provider, `env_http_headers` names the
variable. The built-in provider does not have that option; its variable is `OPENAI_PROJECT`.
"""

import importlib
import json
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.wrap.agents.base import (
    MCP_NAME,
    Agent,
    Redirect,
    RunRequest,
    as_object,
    merge,
    read_file,
    read_json,
    split_options,
)
from contextrender_bridge.wrap.provider_routes import LINK, LINK_VARIABLE, TOKEN, ProviderRoutes

OPENAI = "https://api.openai.com/v1"
CHATGPT = "https://chatgpt.com/backend-api/codex"
BUILT_IN = "openai"
ADDRESS = "openai_base_url"
PROJECT = "OPENAI_PROJECT"
CONFIG_OPTIONS = ("-c", "--config")
COMMANDS_WITHOUT_CALLS = (
    "agents app-server apply a archive cloud completion debug delete doctor exec-server "
    "features help login logout mcp migrate-nfs-db migrate-rollouts plugin queue remote-control "
    "sandbox unarchive update"
)
"""Codex's commands that make no model calls."""
SIGNING_PROVIDERS = frozenset({"amazon-bedrock"})


class Codex(Agent):
    """Codex, redirected by `-c` options on its command line."""

    program = "codex"
    install = "npm install --global @openai/codex"

    def redirect(self, request: RunRequest, routes: ProviderRoutes) -> Redirect:
        """Return the run redirected by `-c` options, which override the user's configuration.

        Find the configured provider, and replace its address by a route. Pass the route's secret in
        a variable, from which Codex sends it as a header. Connect the recall tool. Raise
        CommandError if Codex cannot be redirected.
        """
        words = request.arguments
        if request.asks_help_or_version("-V") or request.command in COMMANDS_WITHOUT_CALLS.split():
            return request.run_unchanged()
        if "--oss" in words or "--remote" in words:
            raise CommandError("wrap cannot redirect Codex with --oss or --remote.")
        # Find the provider, and set the key of its address to the route.
        home = Path(request.get("CODEX_HOME") or request.home / ".codex").expanduser()
        config = _config(request, home)
        provider = str(config.get("model_provider") or BUILT_IN)
        provider_key, upstream = _provider_key_and_address(provider, config, home, request)
        route = json.dumps(f"{routes.route_by_header(upstream)}/v1")
        address_key = f"{provider_key}.base_url" if provider_key else ADDRESS
        result = Redirect(["-c", f"{address_key}={route}"])
        # Pass the secret in a variable, because other users can read the arguments.
        if provider_key:
            header = f"{provider_key}.env_http_headers.{LINK}={json.dumps(LINK_VARIABLE)}"
            result.arguments += ["-c", header]
            result.environment[LINK_VARIABLE] = routes.secret
        else:
            # The built-in provider sends this variable's value in a header that names the user's
            # project. The listener removes the secret from the beginning of the value.
            result.environment[PROJECT] = f"{routes.secret} {request.get(PROJECT)}".strip()
        if routes.serves_recall:
            _add_recall_tool(result, routes)
        # Codex uses the last option of a key, so the user's own one would override the route.
        for option, option_words in split_options(words, *CONFIG_OPTIONS):
            is_override = option is not None and option.partition("=")[0].strip() == address_key
            result.arguments += () if is_override else option_words
        return result


def _add_recall_tool(result: Redirect, routes: ProviderRoutes) -> None:
    """Connect the run to the recall tool, which Codex then calls without asking the user."""
    server = f"{{url={json.dumps(routes.mcp_url)},bearer_token_env_var={json.dumps(TOKEN)}"
    server += ',default_tools_approval_mode="approve"}'
    result.arguments += ["-c", f"mcp_servers.{MCP_NAME}={server}"]
    result.environment[TOKEN] = routes.token


def _provider_key_and_address(
    name: str, config: Json, home: Path, request: RunRequest
) -> tuple[str, str]:
    """Return the key of a provider's section in the configuration, and the provider's address.

    The key of the built-in provider is empty, because it has no section. Raise
    CommandError if the provider is not defined, has no address, or signs its requests.
    """
    if name in SIGNING_PROVIDERS:
        raise CommandError(
            f"Codex's provider {name} signs its requests, so wrap cannot redirect it."
        )
    if name == BUILT_IN:
        default_address = CHATGPT if _uses_chatgpt(home, request) else OPENAI
        return "", str(config.get(ADDRESS) or default_address)
    definition = as_object(config.get("model_providers")).get(name)
    if not isinstance(definition, dict):
        raise CommandError(
            f"Codex's provider {name!r} is not built in, and {home}/config.toml does not define it."
        )
    if not definition.get("base_url"):
        raise CommandError(
            f"Codex's provider {name} has no base_url. Set model_providers.{name}.base_url in "
            f"{home}/config.toml."
        )
    return f"model_providers.{name}", str(definition["base_url"])


def _uses_chatgpt(home: Path, request: RunRequest) -> bool:
    """Return whether Codex uses a ChatGPT account, whose requests it sends to ChatGPT's address."""
    if request.get("CODEX_API_KEY"):
        return False
    login = read_json(home / "auth.json")
    return bool(login.get("tokens")) and not login.get("OPENAI_API_KEY")


def _config(request: RunRequest, home: Path) -> Json:
    """Return the effective configuration: the file's, changed by the profile and `-c` options."""
    config = read_file(home / "config.toml", _toml)
    profile = request.value_of("--profile", "-p") or str(config.get("profile") or "")
    # A profile is a section of the configuration file, or a file of its own.
    profiles = as_object(config.get("profiles"))
    config = {**config, **as_object(profiles.get(profile))}
    if profile:
        config = merge(config, read_file(home / f"{profile}.config.toml", _toml))
    for option, _ in split_options(request.arguments, *CONFIG_OPTIONS):
        config = merge(config, _option_as_config(option) if option else {})
    return config


def _option_as_config(option: str) -> Json:
    """Return the configuration that a `-c` option sets. For `a.b=1`, return `{"a": {"b": 1}}`."""
    key, _, text = option.partition("=")
    try:
        value: Any = _toml(f"value = {text}")["value"]
    except ValueError:  # Codex reads a value that is not TOML as a text
        value = text
    for name in reversed(key.strip().split(".")):
        value = {name: value}
    return as_object(value)


def _toml(text: str) -> Json:
    """Return the fields of a TOML text. Raise CommandError before Python 3.11."""
    try:
        parsed: Json = importlib.import_module("tomllib").loads(text)
    except ImportError:
        raise CommandError("reading Codex's configuration requires Python 3.11 or newer.") from None
    return parsed

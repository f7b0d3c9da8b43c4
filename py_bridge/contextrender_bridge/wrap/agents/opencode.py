"""opencode: redirected by `OPENCODE_CONFIG_CONTENT`, which it merges over its configuration."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.wrap.agents.base import (
    MCP_NAME,
    Agent,
    Redirect,
    RunRequest,
    as_object,
    merge,
    parse_json,
    read_json,
)
from contextrender_bridge.wrap.provider_routes import ProviderRoutes

INLINE_CONFIG = "OPENCODE_CONFIG_CONTENT"
KNOWN_ADDRESSES = {
    "anthropic": "https://api.anthropic.com/v1",
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
}
"""Built-in providers of opencode whose APIs the proxy supports."""

SUPPORTED_PACKAGES = ("@ai-sdk/anthropic", "@ai-sdk/openai", "@ai-sdk/openai-compatible")
COMMANDS_WITHOUT_CALLS = (
    "acp agent attach auth completion db debug export github import login logout mcp models "
    "plug plugin pr providers serve session stats uninstall upgrade web"
)
"""opencode's commands that make no model calls."""
_VARIABLE = re.compile(r"\{env:([^}]+)\}")


class OpenCode(Agent):
    """opencode."""

    program = "opencode"
    install = "npm install --global opencode-ai"
    has_bare_calls = True

    def redirect(self, request: RunRequest, routes: ProviderRoutes) -> Redirect:
        """Return the run with a route for each known or configured provider that is supported.

        Merge the routes and the recall tool into the configuration in the variable `INLINE_CONFIG`,
        which overrides the user's files. Raise CommandError if the model's provider has no route.
        """
        words = request.arguments
        if request.asks_help_or_version("-v") or request.command in COMMANDS_WITHOUT_CALLS.split():
            return request.run_unchanged()
        # Find the address of each provider in all configurations, and replace it by a route.
        inline_config = parse_json(request.get(INLINE_CONFIG), INLINE_CONFIG)
        configured_model, providers = _model_and_providers([*_config_files(request), inline_config])
        redirected: Json = {}
        addresses: dict[str, str] = {}
        for name in sorted({*KNOWN_ADDRESSES, *providers}):
            if base := _address(name, providers.get(name, {}), request):
                redirected[name] = {"options": {"baseURL": f"{routes.route_to(base)}/v1"}}
                addresses[name] = base

        # Without a named model, it is not known whether the user's provider has a route. Then only
        # configured providers are expected, because others need not even be reachable.
        result = Redirect(list(words))
        model = request.value_of("--model", "-m") or configured_model
        if provider := model.partition("/")[0]:
            if provider not in redirected:
                raise CommandError(
                    f"wrap knows no address of the provider {provider} of opencode's model "
                    f"{model}. Set provider.{provider}.options.baseURL in opencode's configuration."
                )
            result.providers = [addresses[provider]]
        else:
            result.providers = [address for name, address in addresses.items() if name in providers]
            result.notes.append(f"wrap redirects only these providers: {', '.join(redirected)}")

        # Add the routes and the recall tool to the configuration of the variable.
        overlay: Json = {"provider": redirected}
        if routes.serves_recall:
            bearer = {"Authorization": f"Bearer {routes.token}"}
            server = {"type": "remote", "url": routes.mcp_url, "headers": bearer}
            overlay["mcp"] = {MCP_NAME: {**server, "oauth": False, "enabled": True}}
        result.environment[INLINE_CONFIG] = json.dumps(merge(inline_config, overlay))
        return result


def _model_and_providers(layers: Sequence[Json]) -> tuple[str, Json]:
    """Return the configured model, and the settings of each provider by the provider's name.

    `layers` are configurations. Each overrides the configurations before it.
    """
    model, providers = "", dict[str, Json]()
    for layer in layers:
        model = str(layer.get("model") or model)
        for name, value in as_object(layer.get("provider")).items():
            settings = as_object(value)
            merged_settings = providers.setdefault(name, {"options": {}})
            merged_settings["npm"] = settings.get("npm") or merged_settings.get("npm")
            merged_settings["options"] |= as_object(settings.get("options"))
    return model, providers


def _address(name: str, settings: Json, request: RunRequest) -> str:
    """Return a provider's address. Return "" if it has none or the proxy does not support its API.

    In a configured address, each `{env:NAME}` is replaced by the variable.
    """
    package = settings.get("npm")
    if package and package not in SUPPORTED_PACKAGES:
        return ""
    address = settings.get("options", {}).get("baseURL")
    if isinstance(address, str) and address:
        return _VARIABLE.sub(lambda match: request.environment.get(match[1], ""), address)
    return KNOWN_ADDRESSES.get(name, "")


def _config_files(request: RunRequest) -> Iterator[Json]:
    """Yield the contents of all configuration files. Each overrides the ones before it.

    They are the user's files, the file of a variable, and the files in the working folder and its
    parents, the working folder's last.
    """
    home = Path(request.get("XDG_CONFIG_HOME") or request.home / ".config") / "opencode"
    for name in ("config.json", "opencode.json", "opencode.jsonc"):
        yield read_json(home / name)
    if extra := request.get("OPENCODE_CONFIG"):
        yield read_json(Path(extra).expanduser())
    for folder in reversed([request.cwd, *request.cwd.parents]):
        for place in (folder, folder / ".opencode"):
            for name in ("opencode.json", "opencode.jsonc"):
                yield read_json(place / name)

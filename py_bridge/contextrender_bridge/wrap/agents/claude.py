"""Claude Code: redirected by `--settings`, which has priority over its settings files."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.wrap.agents.base import (
    MCP_NAME,
    Agent,
    Redirect,
    RunRequest,
    parse_json,
    read_json,
    split_options,
)
from contextrender_bridge.wrap.provider_routes import BEARER, TOKEN, ProviderRoutes, with_version

URL_VARIABLE = "ANTHROPIC_BASE_URL"
PROVIDER_URL = "https://api.anthropic.com"
TOOL_SEARCH_VARIABLE = "ENABLE_TOOL_SEARCH"
# Signed requests are valid for one host only and have paths of their own.
SIGNING_PROVIDERS = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Vertex AI",
    "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
}
COMMANDS_WITHOUT_CALLS = (
    "agents attach auth auto-mode config doctor gateway install kill logs mcp migrate-installer "
    "plugin plugins project remote-control respawn rm setup-token stop ultrareview "
    "update upgrade"
)
"""Claude Code's commands that make no model calls."""
OUTSIDE_OPTIONS = frozenset({"--bg", "--background", "--cloud", "--desktop"})
MANAGED_SETTINGS = (
    Path("/Library/Application Support/ClaudeCode")
    if sys.platform == "darwin"
    else Path("/etc/claude-code")
) / "managed-settings.json"


class Claude(Agent):
    """Claude Code."""

    program = "claude"
    install = "npm install --global @anthropic-ai/claude-code"
    has_bare_calls = True

    def __init__(self, managed: Path = MANAGED_SETTINGS) -> None:
        """Create the agent.

        `managed` is the organisation's settings file, which overrides all others.
        """
        self._managed = managed

    def redirect(self, request: RunRequest, routes: ProviderRoutes) -> Redirect:
        """Return the run redirected by `--settings`, which overrides the user's settings files.

        Find the provider's address in all settings. For this run alone, write a settings file in
        which a route replaces the address. Connect the recall tool. Raise CommandError for options
        and settings that prevent a redirection.
        """
        words = request.arguments
        if request.asks_help_or_version("-v") or request.command in COMMANDS_WITHOUT_CALLS.split():
            return request.run_unchanged()
        if outside_options := OUTSIDE_OPTIONS & set(words):
            raise CommandError(
                f"`claude {min(outside_options)}` runs outside this terminal, so wrap cannot "
                "redirect it. Run it without that option, or without wrap."
            )
        # Find the address in the settings with the highest priority, and replace it by a route.
        own_settings = _settings_option(request)
        layers = self._settings_layers(request, own_settings)
        provider_url = _variable(layers, URL_VARIABLE) or PROVIDER_URL
        route = routes.route_to(with_version(provider_url))
        settings = {**own_settings, "env": {**own_settings.get("env", {}), URL_VARIABLE: route}}
        result = Redirect([])
        if not _variable(layers, TOOL_SEARCH_VARIABLE):
            # With a route as address, Claude Code would disable the tool search. Keep it enabled.
            result.environment[TOOL_SEARCH_VARIABLE] = "true"
        if routes.serves_recall:
            _add_recall_tool(result, settings, routes)

        # The settings have secrets, so they are in a file: other users can read arguments.
        file = request.folder / "settings.json"
        result.files[file] = json.dumps(settings)
        # `--mcp-config` takes all words up to the next option as its values. So `--settings` comes
        # before the user's words.
        result.arguments += ["--settings", str(file)]
        for value, option_words in split_options(words, "--settings"):
            result.arguments += option_words if value is None else ()
        if provider_url.rstrip("/") != PROVIDER_URL:
            result.notes.append(f"Claude Code keeps using its configured gateway: {provider_url}")
        return result

    def _settings_layers(self, request: RunRequest, own_settings: Json) -> list[Json]:
        """Return all settings that apply to the run, highest priority first.

        They are the organisation's settings, `own_settings` (of the option `--settings`), the
        settings files, and the variables of the environment. Raise CommandError if they prevent a
        redirection.
        """
        managed = read_json(self._managed)
        environment = {"env": dict(request.environment)}
        # The project's and the user's settings files, highest priority first.
        home = Path(request.get("CLAUDE_CONFIG_DIR") or request.home / ".claude").expanduser()
        project = request.cwd / ".claude"
        files = (project / "settings.local.json", project / "settings.json", home / "settings.json")
        layers = [managed, own_settings, *map(read_json, files), environment]
        _refuse_signing_provider(layers)
        if _variable([managed], URL_VARIABLE):
            raise CommandError(
                f"{self._managed} sets {URL_VARIABLE} and overrides all other settings, so wrap "
                "cannot redirect Claude Code."
            )
        return layers


def _add_recall_tool(result: Redirect, settings: Json, routes: ProviderRoutes) -> None:
    """Connect the run to the recall tool: by an option, a variable, and a permission in `settings`.

    The permission allows the tool without asking the user.
    """
    permissions = settings.get("permissions", {})
    allowed_tools = [*permissions.get("allow", ()), f"mcp__{MCP_NAME}__recall"]
    settings["permissions"] = {**permissions, "allow": allowed_tools}
    result.environment[TOKEN] = routes.token
    server = {"type": "http", "url": routes.mcp_url, "headers": BEARER}
    result.arguments += ["--mcp-config", json.dumps({"mcpServers": {MCP_NAME: server}})]


def _refuse_signing_provider(layers: Sequence[Json]) -> None:
    """Raise CommandError if the settings select a provider whose requests are signed."""
    for name, provider in SIGNING_PROVIDERS.items():
        if _variable(layers, name).lower() in ("1", "true", "yes", "on"):
            raise CommandError(
                f"Claude Code is set up for {provider} ({name}). Its requests are signed for "
                "its own address, so wrap cannot redirect them."
            )


def _settings_option(request: RunRequest) -> Json:
    """Return the settings of the user's option `--settings`: JSON, or the name of a file.

    Return an empty object without the option. Raise CommandError if they cannot be read.
    """
    option = request.value_of("--settings")
    if option.lstrip().startswith("{"):
        return parse_json(option, "--settings")
    if not option:
        return {}
    path = request.cwd / Path(option).expanduser()
    if not path.is_file():
        raise CommandError(f"there is no settings file {path}.")
    return read_json(path)


def _variable(layers: Sequence[Json], name: str) -> str:
    """Return a variable's value from the first settings whose `env` has it; empty if none has."""
    for layer in layers:
        values = layer.get("env")
        if isinstance(values, dict) and values.get(name):
            return str(values[name])
    return ""

"""Claude Code: its settings layers, the first of which `--settings` is."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.wrap.agents.base import (
    MCP_NAME,
    Agent,
    Redirect,
    RunRequest,
    first_word,
    is_question,
    parse_json,
    read_json,
    unchanged,
    value_of,
)
from contextrender_bridge.wrap.provider_routes import BEARER, TOKEN, ProviderRoutes, with_version

URL = "ANTHROPIC_BASE_URL"
PROVIDER = "https://api.anthropic.com"
TOOL_SEARCH = "ENABLE_TOOL_SEARCH"
# Signed requests are good for one host alone, and have paths of their own.
ELSEWHERE = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Vertex AI",
    "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
}
COMMANDS = (
    "agents attach auth auto-mode config doctor gateway install kill logs mcp migrate-installer "
    "plugin plugins project remote-control respawn rm setup-token stop ultrareview "
    "update upgrade"
)
"""Those that make no model calls."""
AWAY = frozenset({"--bg", "--background", "--cloud", "--desktop"})
MANAGED = (
    Path("/Library/Application Support/ClaudeCode")
    if sys.platform == "darwin"
    else Path("/etc/claude-code")
) / "managed-settings.json"


class Claude(Agent):
    """Claude Code."""

    program = "claude"
    install = "npm install --global @anthropic-ai/claude-code"
    has_bare_calls = True

    def __init__(self, managed: Path = MANAGED) -> None:
        """`managed` are the settings of an organisation, which beat all others."""
        self._managed = managed

    def redirect(self, given: RunRequest, doors: ProviderRoutes) -> Redirect:
        """Through `--settings`, which beats every layer of the user's own."""
        words = given.arguments
        if is_question(words, "-v") or first_word(words) in COMMANDS.split():
            return unchanged(given)
        if away := AWAY & set(words):
            raise CommandError(
                f"`claude {min(away)}` runs outside this terminal, where wrap cannot follow."
            )
        own = _own_settings(given)
        managed = read_json(self._managed)
        layers = [managed, own, *_files(given), {"env": dict(given.environment)}]
        for name, provider in ELSEWHERE.items():
            if _variable(layers, name).lower() in ("1", "true", "yes", "on"):
                raise CommandError(
                    f"Claude Code is set up for {provider} ({name}), whose requests are for "
                    "its own address alone: wrap cannot redirect it."
                )
        if _variable([managed], URL):
            raise CommandError(f"{self._managed} sets {URL}, which nothing else can: wrap is off.")
        base = _variable(layers, URL) or PROVIDER
        settings = {**own, "env": {**own.get("env", {}), URL: doors.open(with_version(base))}}
        made = Redirect([])
        if not _variable(layers, TOOL_SEARCH):
            made.environment[TOOL_SEARCH] = "true"
        if doors.recalls:
            allowed = own.get("permissions", {})
            tool = f"mcp__{MCP_NAME}__recall"
            settings["permissions"] = {**allowed, "allow": [*allowed.get("allow", ()), tool]}
            made.environment[TOKEN] = doors.token
            server = {"type": "http", "url": doors.mcp_url, "headers": BEARER}
            made.arguments += ["--mcp-config", json.dumps({"mcpServers": {MCP_NAME: server}})]
        # In a file, because other users see arguments: they hold the secret, and maybe keys.
        file = given.folder / "settings.json"
        made.files[file] = json.dumps(settings)
        # Behind --mcp-config, which takes every word up to the next option.
        made.arguments += ["--settings", str(file), *_without(words, "--settings")]
        if base.rstrip("/") != PROVIDER:
            made.notes.append(f"Claude Code's own gateway stays its provider: {base}")
        return made


def _own_settings(given: RunRequest) -> Json:
    told = value_of(given.arguments, "--settings")
    if told.lstrip().startswith("{"):
        return parse_json(told, "--settings")
    if not told:
        return {}
    path = given.cwd / Path(told).expanduser()
    if not path.is_file():
        raise CommandError(f"there is no settings file {path}.")
    return read_json(path)


def _files(given: RunRequest) -> Iterator[Json]:
    home = Path(given.get("CLAUDE_CONFIG_DIR") or given.home / ".claude").expanduser()
    yield read_json(given.cwd / ".claude" / "settings.local.json")
    yield read_json(given.cwd / ".claude" / "settings.json")
    yield read_json(home / "settings.json")


def _variable(layers: Sequence[Json], name: str) -> str:
    """A variable as Claude Code sees it: the first layer's that sets it."""
    for layer in layers:
        values = layer.get("env")
        if isinstance(values, dict) and values.get(name):
            return str(values[name])
    return ""


def _without(arguments: Sequence[str], name: str) -> list[str]:
    """The arguments but for an option and its value."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*kept, word, *words]
        if word == name:
            next(words, None)
        elif not word.startswith(f"{name}="):
            kept.append(word)
    return kept

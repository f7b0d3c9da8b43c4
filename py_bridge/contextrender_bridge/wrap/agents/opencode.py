"""opencode: its configuration merges by key, and `OPENCODE_CONFIG_CONTENT` comes last."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
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
    merged,
    parse_json,
    read_json,
    table,
    unchanged,
    value_of,
)
from contextrender_bridge.wrap.provider_routes import ProviderRoutes

CONTENT = "OPENCODE_CONFIG_CONTENT"
KNOWN = {
    "anthropic": "https://api.anthropic.com/v1",
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
}
"""Providers whose addresses opencode has itself, and whose APIs the proxy reads."""

SPOKEN = ("@ai-sdk/anthropic", "@ai-sdk/openai", "@ai-sdk/openai-compatible")
COMMANDS = (
    "acp agent attach auth completion db debug export github import login logout mcp models "
    "plug plugin pr providers serve session stats uninstall upgrade web"
)
"""Those that make no model calls."""
_VARIABLE = re.compile(r"\{env:([^}]+)\}")


class OpenCode(Agent):
    """opencode."""

    program = "opencode"
    install = "npm install --global opencode-ai"
    has_bare_calls = True

    def redirect(self, given: RunRequest, doors: ProviderRoutes) -> Redirect:
        """A door for each provider that it may use and that the proxy reads."""
        words = given.arguments
        if is_question(words, "-v") or first_word(words) in COMMANDS.split():
            return unchanged(given)
        own = parse_json(given.get(CONTENT), CONTENT)
        providers: Json = {}
        model = ""
        for layer in [*_files(given), own]:
            model = str(layer.get("model") or model)
            for name, settings in table(layer.get("provider")).items():
                known = providers.setdefault(name, {"options": {}})
                known["npm"] = table(settings).get("npm") or known.get("npm")
                known["options"] |= table(table(settings).get("options"))
        model = value_of(words, "--model", "-m") or model
        made = Redirect(list(words))
        doored: Json = {}
        for name in sorted({*KNOWN, *providers}):
            base = _address(name, providers.get(name, {}), given)
            if base:
                doored[name] = {"options": {"baseURL": f"{doors.open(base)}/v1"}}
        used = model.partition("/")[0]
        if used and used not in doored:
            raise CommandError(
                f"opencode's model is {model}: wrap knows no address of its provider {used}. "
                f"Set provider.{used}.options.baseURL in opencode's configuration."
            )
        if not used:
            made.notes.append(f"through wrap: the providers {', '.join(doored)}; no others")
        added: Json = {"provider": doored}
        if doors.recalls:
            bearer = {"Authorization": f"Bearer {doors.token}"}
            added["mcp"] = {
                MCP_NAME: {"type": "remote", "url": doors.mcp_url, "headers": bearer}
                | {"oauth": False, "enabled": True}
            }
        made.environment[CONTENT] = json.dumps(merged(own, added))
        return made


def _address(name: str, settings: Json, given: RunRequest) -> str:
    """A provider's address, if the proxy reads what it speaks."""
    package = settings.get("npm")
    if package and package not in SPOKEN:
        return ""
    told = settings.get("options", {}).get("baseURL")
    if isinstance(told, str) and told:
        return _VARIABLE.sub(lambda found: given.environment.get(found[1], ""), told)
    return KNOWN.get(name, "")


def _files(given: RunRequest) -> Iterator[Json]:
    """The configuration's layers, the weakest first."""
    home = Path(given.get("XDG_CONFIG_HOME") or given.home / ".config") / "opencode"
    for name in ("config.json", "opencode.json", "opencode.jsonc"):
        yield read_json(home / name)
    if extra := given.get("OPENCODE_CONFIG"):
        yield read_json(Path(extra).expanduser())
    for folder in reversed([given.cwd, *given.cwd.parents]):
        for place in (folder, folder / ".opencode"):
            for name in ("opencode.json", "opencode.jsonc"):
                yield read_json(place / name)

"""OpenClaw: a file beside the user's configuration, which it includes and changes the addresses of.

OpenClaw includes only what is in its configuration's own folder. The file is named by this process,
is gone when the run ends, and one that a killed run has left goes with the next.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.leases import started_at
from contextrender_bridge.wrap.agents.base import (
    MCP_NAME,
    Agent,
    Redirect,
    RunRequest,
    first_word,
    read_json,
    unchanged,
    value_of,
)
from contextrender_bridge.wrap.provider_routes import BEARER, TOKEN, ProviderRoutes

VARIABLE = "OPENCLAW_CONFIG_PATH"
PREFIX = ".contextrender-"
MESSAGES = "anthropic-messages"
SPOKEN = frozenset({"openai-completions", "openai-responses", MESSAGES})


class OpenClaw(Agent):
    """OpenClaw."""

    program = "openclaw"
    install = "npm install --global openclaw"

    def redirect(self, given: RunRequest, doors: ProviderRoutes) -> Redirect:
        """A door for each provider of the configuration that the proxy reads."""
        words = list(given.arguments)
        if first_word(words) != "agent":
            return unchanged(given)
        if "--local" not in words and words[1:2] != ["exec"]:
            raise CommandError(
                "`openclaw agent` asks a gateway that runs by itself: wrap needs --local, or "
                "`openclaw agent exec`."
            )
        file = _configuration(given)
        own = read_json(file)
        providers: dict[str, Json] = own.get("models", {}).get("providers", {})
        if not providers:
            raise CommandError(f"{file} names no models.providers: wrap knows no address to go to.")
        changed = {
            name: {"baseUrl": doors.versioned(base, messages=provider["api"] == MESSAGES)}
            for name, provider in providers.items()
            if (base := str(provider.get("baseUrl") or "")) and provider.get("api") in SPOKEN
        }
        _check(own, changed, file)
        overlay = file.with_name(f"{PREFIX}{os.getpid()}-{started_at(os.getpid())}.json")
        added: Json = {"$include": f"./{file.name}", "models": {"providers": changed}}
        told = value_of(words, "--config")
        arguments = [str(overlay) if word == told and told else word for word in words]
        made = Redirect(arguments, {VARIABLE: str(overlay)})
        if doors.recalls:
            server = {"url": doors.mcp_url, "transport": "streamable-http", "headers": BEARER}
            added["mcp"] = {"servers": {MCP_NAME: server}}
            made.environment[TOKEN] = doors.token
        made.files[overlay] = json.dumps(added)
        return made


def sweep(folder: Path) -> None:
    """Removes what killed runs have left in a folder."""
    for path in folder.glob(f"{PREFIX}*.json"):
        pid, _, start = path.stem.removeprefix(PREFIX).partition("-")
        if pid.isdecimal() and started_at(int(pid)) != start:
            with suppress(OSError):
                path.unlink()


def _configuration(given: RunRequest) -> Path:
    told = value_of(given.arguments, "--config") or given.get(VARIABLE)
    if told:
        return given.cwd / Path(told).expanduser()
    state = Path(given.get("OPENCLAW_STATE_DIR") or given.home / ".openclaw").expanduser()
    return state / "openclaw.json"


def _check(own: Json, changed: Json, file: Path) -> None:
    """That the model the agent uses has a door."""
    model = own.get("agents", {}).get("defaults", {}).get("model", {})
    primary = str(model.get("primary", "") if isinstance(model, dict) else model)
    if primary.partition("/")[0] not in changed:
        raise CommandError(f"{file} gives no address that the proxy reads for model {primary!r}.")

"""OpenClaw: redirected by a file that includes the user's configuration and changes addresses.

OpenClaw includes only files in its configuration's own folder, so the file is written there. Its
name has the id of this process. It is deleted when the run ends, or by the next run if this one is
killed.
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
    first_command,
    read_json,
    run_unchanged,
    value_of,
)
from contextrender_bridge.wrap.provider_routes import BEARER, TOKEN, ProviderRoutes

VARIABLE = "OPENCLAW_CONFIG_PATH"
PREFIX = ".contextrender-"
MESSAGES = "anthropic-messages"
SUPPORTED_APIS = frozenset({"openai-completions", "openai-responses", MESSAGES})


class OpenClaw(Agent):
    """OpenClaw."""

    program = "openclaw"
    install = "npm install --global openclaw"

    def redirect(self, request: RunRequest, routes: ProviderRoutes) -> Redirect:
        """Return the run with a route for each configured provider that the proxy supports."""
        words = list(request.arguments)
        if first_command(words) != "agent":
            return run_unchanged(request)
        if "--local" not in words and words[1:2] != ["exec"]:
            raise CommandError(
                "`openclaw agent` calls a gateway that runs by itself, which wrap cannot redirect. "
                "Add --local, or use `openclaw agent exec`."
            )
        user_file = _config_file(request)
        config = read_json(user_file)
        providers: dict[str, Json] = config.get("models", {}).get("providers", {})
        if not providers:
            raise CommandError(f"{user_file} has no models.providers with the provider's address.")
        redirected = {
            name: {"baseUrl": routes.route_with_version(base, messages=provider["api"] == MESSAGES)}
            for name, provider in providers.items()
            if (base := str(provider.get("baseUrl") or ""))
            and provider.get("api") in SUPPORTED_APIS
        }
        _check_model(config, redirected, user_file)
        overlay_file = user_file.with_name(f"{PREFIX}{os.getpid()}-{started_at(os.getpid())}.json")
        overlay_config: Json = {
            "$include": f"./{user_file.name}",
            "models": {"providers": redirected},
        }
        config_option = value_of(words, "--config")
        arguments = [
            str(overlay_file) if word == config_option and config_option else word for word in words
        ]
        result = Redirect(arguments, {VARIABLE: str(overlay_file)})
        if routes.has_recall:
            server = {"url": routes.mcp_url, "transport": "streamable-http", "headers": BEARER}
            overlay_config["mcp"] = {"servers": {MCP_NAME: server}}
            result.environment[TOKEN] = routes.token
        result.files[overlay_file] = json.dumps(overlay_config)
        return result


def remove_stale_files(folder: Path) -> None:
    """Delete the files of killed runs in a folder."""
    for path in folder.glob(f"{PREFIX}*.json"):
        pid, _, start = path.stem.removeprefix(PREFIX).partition("-")
        if pid.isdecimal() and started_at(int(pid)) != start:
            with suppress(OSError):
                path.unlink()


def _config_file(request: RunRequest) -> Path:
    path = value_of(request.arguments, "--config") or request.get(VARIABLE)
    if path:
        return request.cwd / Path(path).expanduser()
    state = Path(request.get("OPENCLAW_STATE_DIR") or request.home / ".openclaw").expanduser()
    return state / "openclaw.json"


def _check_model(config: Json, redirected: Json, file: Path) -> None:
    """Raise CommandError unless the agent's model has a route."""
    model = config.get("agents", {}).get("defaults", {}).get("model", {})
    primary = str(model.get("primary", "") if isinstance(model, dict) else model)
    if primary.partition("/")[0] not in redirected:
        raise CommandError(
            f"{file} has no provider with a baseUrl and a supported api for model {primary!r}."
        )

"""OpenClaw: redirected by a file that includes the user's configuration and changes addresses.

OpenClaw includes only files in its configuration's own folder, so the file is written there. Its
name has the id of this process. It is deleted when the run ends, or by the next run if this one is
killed.
"""

import json
import os
from contextlib import suppress
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.leases import started_at
from contextrender_bridge.wrap.agents.base import MCP_NAME, Agent, Redirect, RunRequest, read_json
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
        """Return the run with a route for each configured provider whose API the proxy supports.

        For this run, write a configuration that includes the user's, replaces the addresses by
        routes, and adds the recall tool. Raise CommandError if the command uses a gateway, or if
        the model's provider has no route.
        """
        words = list(request.arguments)
        if request.command != "agent":
            return request.run_unchanged()
        if "--local" not in words and words[1:2] != ["exec"]:
            raise CommandError(
                "`openclaw agent` calls a gateway that runs by itself, which wrap cannot redirect. "
                "Add --local, or use `openclaw agent exec`."
            )
        # Make a route for each provider in the user's configuration.
        user_file = _config_file(request)
        config = read_json(user_file)
        redirected = _redirect_providers(config, user_file, routes)
        _check_model(config, redirected, user_file)

        # The name has the id and the start of this process, so that stale files are recognized.
        run_file = user_file.with_name(f"{PREFIX}{os.getpid()}-{started_at(os.getpid())}.json")
        run_config: Json = {"$include": f"./{user_file.name}", "models": {"providers": redirected}}
        # OpenClaw reads the file of the option `--config`, otherwise the file of the variable.
        if config_option := request.value_of("--config"):
            words = [str(run_file) if word == config_option else word for word in words]
        result = Redirect(words, {VARIABLE: str(run_file)})
        if routes.serves_recall:
            server = {"url": routes.mcp_url, "transport": "streamable-http", "headers": BEARER}
            run_config["mcp"] = {"servers": {MCP_NAME: server}}
            result.environment[TOKEN] = routes.token
        result.files[run_file] = json.dumps(run_config)
        return result


def _redirect_providers(config: Json, file: Path, routes: ProviderRoutes) -> dict[str, Json]:
    """Return settings with a route as the address of each provider that has a supported API.

    `config` is the content of `file`. Raise CommandError if it names no provider.
    """
    providers: dict[str, Json] = config.get("models", {}).get("providers", {})
    if not providers:
        raise CommandError(f"{file} has no models.providers with the provider's address.")
    redirected: dict[str, Json] = {}
    for name, provider in providers.items():
        base, api = str(provider.get("baseUrl") or ""), provider.get("api")
        if base and api in SUPPORTED_APIS:
            route = routes.route_with_version(base, messages=api == MESSAGES)
            redirected[name] = {"baseUrl": route}
    return redirected


def remove_stale_files(folder: Path) -> None:
    """Delete the files in a folder that killed runs of wrap could not delete.

    A file's name has the id and the start time of its run's process. If this process no longer
    runs, or another process has the id now, the current start time is different.
    """
    for path in folder.glob(f"{PREFIX}*.json"):
        pid, _, start = path.stem.removeprefix(PREFIX).partition("-")
        if pid.isdecimal() and started_at(int(pid)) != start:
            with suppress(OSError):
                path.unlink()


def _config_file(request: RunRequest) -> Path:
    """Return the path of the user's configuration file.

    The option `--config` names it, otherwise the variable. Otherwise it is in the state folder.
    """
    path = request.value_of("--config") or request.get(VARIABLE)
    if path:
        return request.cwd / Path(path).expanduser()
    folder = Path(request.get("OPENCLAW_STATE_DIR") or request.home / ".openclaw").expanduser()
    return folder / "openclaw.json"


def _check_model(config: Json, redirected: Json, file: Path) -> None:
    """Raise CommandError if the provider of the agent's model has no route."""
    setting = config.get("agents", {}).get("defaults", {}).get("model", {})
    model = str(setting.get("primary", "") if isinstance(setting, dict) else setting)
    provider = model.partition("/")[0]  # as in `anthropic/claude-opus-4-8`
    if provider not in redirected:
        raise CommandError(
            f"{file} has no provider with a baseUrl and a supported api for model {model!r}."
        )

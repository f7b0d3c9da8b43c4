"""Codex: one provider's address, by `-c`; everything else of that provider stays the user's.

Other users of the machine can read arguments, so the address has no secret. A header has it, whose
value Codex takes from a variable: by a provider's own `env_http_headers`, or from `OPENAI_PROJECT`
for its built-in provider, which takes no such option.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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
    read_file,
    read_json,
    table,
    unchanged,
    value_of,
)
from contextrender_bridge.wrap.provider_routes import LINK, LINK_VARIABLE, TOKEN, ProviderRoutes

OPENAI = "https://api.openai.com/v1"
CHATGPT = "https://chatgpt.com/backend-api/codex"
BUILT_IN = "openai"
ADDRESS = "openai_base_url"
PROJECT = "OPENAI_PROJECT"
COMMANDS = (
    "agents app-server apply a archive cloud completion debug delete doctor exec-server "
    "features help login logout mcp migrate-nfs-db migrate-rollouts plugin queue remote-control "
    "sandbox unarchive update"
)
"""Those that make no model calls."""
SIGNED = frozenset({"amazon-bedrock"})


class Codex(Agent):
    """Codex."""

    program = "codex"
    install = "npm install --global @openai/codex"

    def redirect(self, given: RunRequest, doors: ProviderRoutes) -> Redirect:
        """By `-c` options, which beat the user's configuration and change nothing else of it."""
        words = given.arguments
        if is_question(words, "-V") or first_word(words) in COMMANDS.split():
            return unchanged(given)
        if "--oss" in words or "--remote" in words:
            raise CommandError("wrap cannot stand between Codex and --oss or --remote.")
        home = Path(given.get("CODEX_HOME") or given.home / ".codex").expanduser()
        config = _config(given, home)
        provider = str(config.get("model_provider") or BUILT_IN)
        options, upstream = _provider(provider, config, home, given)
        door = json.dumps(f"{doors.open_by_header(upstream)}/v1")
        address = f"{options}.base_url" if options else ADDRESS
        if options:
            header = f"{options}.env_http_headers.{LINK}={json.dumps(LINK_VARIABLE)}"
            made = Redirect(["-c", f"{address}={door}", "-c", header])
            made.environment[LINK_VARIABLE] = doors.secret
        else:
            made = Redirect(["-c", f"{address}={door}"])
            made.environment[PROJECT] = f"{doors.secret} {given.get(PROJECT)}".strip()
        if doors.recalls:
            server = f"{{url={json.dumps(doors.mcp_url)},bearer_token_env_var={json.dumps(TOKEN)}"
            server += ',default_tools_approval_mode="approve"}'
            made.arguments += ["-c", f"mcp_servers.{MCP_NAME}={server}"]
            made.environment[TOKEN] = doors.token
        made.arguments += _without(words, address)
        return made


def _provider(name: str, config: Json, home: Path, given: RunRequest) -> tuple[str, str]:
    """Return the table of a provider's options, empty for the built-in one, and its address."""
    if name in SIGNED:
        raise CommandError(f"Codex's provider {name} signs its requests: wrap cannot redirect it.")
    if name == BUILT_IN:
        known = config.get(ADDRESS)
        return "", str(known or (CHATGPT if _logged_in(home, given) else OPENAI))
    own = table(config.get("model_providers")).get(name)
    if not isinstance(own, dict):
        raise CommandError(
            f"Codex's provider {name!r} is neither its own nor in {home}/config.toml."
        )
    if not own.get("base_url"):
        raise CommandError(f"Codex's provider {name} has no base_url.")
    return f"model_providers.{name}", str(own["base_url"])


def _logged_in(home: Path, given: RunRequest) -> bool:
    """Whether it uses a ChatGPT account: then its requests go there."""
    if given.get("CODEX_API_KEY"):
        return False
    login = read_json(home / "auth.json")
    return bool(login.get("tokens")) and not login.get("OPENAI_API_KEY")


def _config(given: RunRequest, home: Path) -> Json:
    """The keys of the configuration that matter here, with profile and `-c` options."""
    config = read_file(home / "config.toml", _toml)
    profile = value_of(given.arguments, "--profile", "-p") or str(config.get("profile") or "")
    config = {**config, **table(table(config.get("profiles")).get(profile))}
    if profile:
        config = merged(config, read_file(home / f"{profile}.config.toml", _toml))
    for option in _options(given.arguments):
        key, _, value = option.partition("=")
        try:
            parsed: Any = _toml(f"value = {value}")["value"]
        except ValueError:
            parsed = value
        for part in reversed(key.strip().split(".")):
            parsed = {part: parsed}
        config = merged(config, parsed)
    return config


def _options(arguments: Sequence[str]) -> Iterator[str]:
    for place, word in enumerate(arguments):
        if word in ("-c", "--config") and place + 1 < len(arguments):
            yield arguments[place + 1]
        elif word.startswith("--config="):
            yield word.partition("=")[2]


def _without(arguments: Sequence[str], key: str) -> list[str]:
    """Return the arguments without options that set `key`, because Codex takes the last one."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        option, _, value = word.partition("=")
        if word in ("-c", "--config"):
            value = next(words, "")
            if value.partition("=")[0].strip() != key:
                kept += [word, value]
        elif option != "--config" or value.partition("=")[0].strip() != key:
            kept.append(word)
    return kept


def _toml(text: str) -> Json:
    try:
        found: Json = importlib.import_module("tomllib").loads(text)
    except ImportError:
        raise CommandError("to read Codex's configuration needs Python 3.11 or newer.") from None
    return found

"""Hermes: a managed folder of this run's own, whose configuration and `.env` beat the user's.

Hermes merges `HERMES_MANAGED_DIR` over `config.yaml` key by key, so the provider keeps its key,
headers and body. An administrator's managed folder is carried over into the run's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

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
    table,
    unchanged,
)
from contextrender_bridge.wrap.agents.hermes_set import VARIABLE, HermesSet, read_hermes
from contextrender_bridge.wrap.provider_routes import BEARER, TOKEN, ProviderRoutes, with_version

KNOWN = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "deepseek": ("DEEPSEEK_BASE_URL", "https://api.deepseek.com/v1"),
    "openai-api": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "openrouter": ("OPENROUTER_BASE_URL", "https://openrouter.ai/api/v1"),
    "xai": ("XAI_BASE_URL", "https://api.x.ai/v1"),
    "zai": ("GLM_BASE_URL", "https://api.z.ai/api/paas/v4"),
}
"""Providers of Hermes' own that the proxy reads: the variable of the address, the address."""

NO_RECALL = (
    "no recall tool: Hermes asks MCP servers only where its own config.yaml names one "
    "(`hermes mcp add`)."
)
MCP_SECONDS = 15.0
"""Hermes' own 1.5 may not do to import its MCP client; it goes on as soon as all have answered."""
LOOKED_AT = ("api_mode", "transport", "api_key", "key_env")
MODES = {"api.openai.com": "codex_responses", "api.x.ai": "codex_responses"}
MODES["api.anthropic.com"] = "anthropic_messages"
MESSAGES = "anthropic_messages"


class Hermes(Agent):
    """Hermes Agent."""

    program = "hermes"
    install = "uv tool install 'hermes-agent[mcp]'"
    has_bare_calls = True

    def redirect(self, given: RunRequest, doors: ProviderRoutes) -> Redirect:
        """A door for the provider that this run is set to use."""
        if is_question(given.arguments, "-V") or first_word(given.arguments) not in ("", "chat"):
            return unchanged(given)
        read = read_hermes(given)
        _point(read, doors)
        made = Redirect(list(given.arguments), {VARIABLE: str(given.folder)})
        if doors.recalls and not read.asks_mcp:
            made.notes.append(NO_RECALL)
        elif doors.recalls:
            server = {"url": doors.mcp_url, "headers": BEARER}
            read.overlay["mcp_servers"] = {MCP_NAME: server}
            read.overlay["mcp_discovery_timeout"] = _patience(read)
            made.environment[TOKEN] = doors.token
        config = merged(read.managed, read.overlay)
        made.files[given.folder / "config.yaml"] = json.dumps(config)  # JSON is YAML
        lines = [f"{key}={value}\n" for key, value in {**read.managed_env, **read.env}.items()]
        made.files[given.folder / ".env"] = "".join(lines)
        return made


def _point(read: HermesSet, doors: ProviderRoutes) -> None:
    """Writes into the overlay what takes the provider's calls to its door."""
    name = read.provider
    for key, entry in _named(read, name):
        base = read.expanded(entry[key])
        mode = entry.get("api_mode") or entry.get("transport")
        entry |= {key: _door(base, mode or _mode(base), doors), **_key(read, base, entry)}
        if not mode and _mode(base):
            entry["api_mode"] = _mode(base)
        return
    if name in KNOWN:
        _point_known(read, name, doors)
    elif base := _bare(read, name):
        _point_bare(read, name if name != "auto" else "custom", base, doors)
    else:
        raise CommandError(
            f"wrap knows no address of Hermes' provider {name!r}. Name one with `hermes model`, "
            "or set providers.NAME.base_url in Hermes' configuration."
        )


def _patience(read: HermesSet) -> float:
    """Seconds for MCP servers before the first call: a longer time of the user's own stays."""
    told = read.config.get("mcp_discovery_timeout")
    return max(MCP_SECONDS, float(told)) if isinstance(told, int | float) else MCP_SECONDS


def _named(read: HermesSet, name: str) -> Iterator[tuple[str, Json]]:
    """The overlay's entry of a provider the user has named, and the key of its address."""
    wanted = name.removeprefix("custom:")
    for one, entry in table(read.config.get("providers")).items():
        if isinstance(entry, dict) and wanted in (_plain(one), _plain(entry.get("name"))):
            for key in ("api", "url", "base_url"):
                if entry.get(key):
                    kept = {k: entry[k] for k in (key, *LOOKED_AT) if entry.get(k)}
                    read.overlay["providers"] = {one: kept}
                    yield key, kept
    older = read.config.get("custom_providers")
    # A list is replaced as a whole: the file is this user's alone and goes with the run.
    copied = [dict(one) if isinstance(one, dict) else one for one in older or ()]
    for entry in copied if isinstance(older, list) else ():
        named = isinstance(entry, dict) and wanted == _plain(entry.get("name"))
        if named and entry.get("base_url"):
            read.overlay["custom_providers"] = copied
            yield "base_url", entry


def _point_known(read: HermesSet, name: str, doors: ProviderRoutes) -> None:
    variable, known = KNOWN[name]
    own = str(read.model.get("provider") or "").lower() == name
    told = read.expanded(read.model.get("base_url")) if own and name != "openrouter" else ""
    base = told or read.variables.get(variable) or known
    mode = (read.model.get("api_mode") if own else "") or _mode(base)
    if name == "openrouter":
        if not any(read.variables.get(key) for key in ("OPENROUTER_API_KEY", "OPENAI_API_KEY")):
            raise CommandError("wrap needs OPENROUTER_API_KEY in the environment or Hermes' .env.")
        read.env[variable] = _door(base, mode, doors)
        return
    if name == "anthropic":  # Hermes takes other addresses only where they end in /anthropic
        bare = base if base.rstrip("/").endswith("/v1") else with_version(base)
        door = doors.open(bare, name)
    else:
        door = _door(base, mode, doors)
    model = {"provider": name, "base_url": door}
    read.overlay["model"] = model | ({"api_mode": mode} if mode else {})
    if read.variables.get(variable):
        read.env[variable] = door


def _bare(read: HermesSet, name: str) -> str:
    """The address of `custom`, and of `auto` where the configuration has one of no known cloud."""
    base = read.expanded(read.variables.get("CUSTOM_BASE_URL") or read.model.get("base_url"))
    cloud = _host(base).endswith(("openrouter.ai", "anthropic.com", "openai.com"))
    local = name in ("custom", "ollama", "vllm", "llamacpp")
    return base if local or (name == "auto" and not cloud) else ""


def _point_bare(read: HermesSet, name: str, base: str, doors: ProviderRoutes) -> None:
    """By an entry of that name, which comes first: its key is the one Hermes has for the host."""
    told = read.model.get("api_mode")
    # Hermes takes `codex_responses` of a bare address only where it is OpenAI's or xAI's.
    mode = (told if told != "codex_responses" else "") or _mode(base) or "chat_completions"
    entry: Json = {"base_url": _door(base, mode, doors), "api_mode": mode}
    key = read.model.get("api_key") or read.model.get("api")
    entry |= {"api_key": str(key)} if key else _key(read, base, entry)
    read.overlay |= {"providers": {name: entry}, "model": {"provider": name}}


def _key(read: HermesSet, base: str, entry: Json) -> dict[str, str]:
    """The variable of the key that Hermes gives to that host alone, where it has no other."""
    labels = _host(base).split(".")
    vendor = labels[-2].upper().replace("-", "_") if len(labels) > 1 else ""
    own = entry.get("api_key") or read.variables.get(str(entry.get("key_env") or ""))
    derived = f"{vendor}_API_KEY"
    return {} if own or not read.variables.get(derived) else {"key_env": derived}


def _door(base: str, mode: object, doors: ProviderRoutes) -> str:
    return doors.versioned(base, messages=mode == MESSAGES)


def _mode(base: str) -> str:
    """The API that Hermes speaks with an address, where that follows from the address."""
    path = urlsplit(base.lower()).path.rstrip("/")
    messages = path.endswith(("/anthropic", "/anthropic/v1"))
    return MODES.get(_host(base)) or (MESSAGES if messages else "")


def _host(base: str) -> str:
    return (urlsplit(base).hostname or "").lower()


def _plain(name: object) -> str:
    return str(name or "").strip().lower().replace(" ", "-")

"""Hermes' settings: the user's configuration and `.env`, overridden by an administrator's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.wrap.agents.base import RunRequest, merged, read_file, table, value_of

VARIABLE = "HERMES_MANAGED_DIR"
MANAGED = Path("/etc/hermes")


@dataclass
class HermesSettings:
    """The effective configuration and variables. `overlay` and `env` are what this run adds."""

    request: RunRequest
    managed: Json
    managed_env: dict[str, str]
    config: Json
    variables: Mapping[str, str]
    asks_mcp: bool
    overlay: Json = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    @property
    def model(self) -> Json:
        """The `model` section of the configuration."""
        return table(self.config.get("model"))

    def expanded(self, value: object) -> str:
        """Return a value of the configuration with each `${NAME}` replaced by the variable."""
        variables = self.variables
        return re.sub(
            r"\$\{([^}]+)\}", lambda name: variables.get(name[1], name[0]), str(value or "")
        )

    @property
    def provider(self) -> str:
        """The provider by Hermes' rules: from the option, the configuration or the variable."""
        name = value_of(self.request.arguments, "--provider") or self.model.get("provider")
        return str(name or self.variables.get("HERMES_INFERENCE_PROVIDER") or "auto").lower()


def read_hermes_settings(request: RunRequest) -> HermesSettings:
    """Return Hermes' settings. Raise CommandError if one of its files cannot be read."""
    home = _home(request)
    folder = Path(request.get(VARIABLE) or MANAGED)
    managed = read_file(folder / "config.yaml", _yaml)
    managed_env = read_file(folder / ".env", _dotenv)
    user_config = read_file(home / "config.yaml", _yaml)
    if isinstance(user_config.get("model"), str):
        user_config["model"] = {"default": user_config["model"]}
    variables = {**request.environment, **read_file(home / ".env", _dotenv), **managed_env}
    return HermesSettings(
        request,
        managed,
        managed_env,
        merged(user_config, managed),
        variables,
        bool(user_config.get("mcp_servers")),
    )


def _home(request: RunRequest) -> Path:
    """Return Hermes' home folder for the active profile."""
    root = Path(request.get("HERMES_HOME") or request.home / ".hermes").expanduser()
    profile = value_of(request.arguments, "--profile", "-p")
    if not profile and not request.get("HERMES_HOME"):
        active = root / "active_profile"
        profile = active.read_text(encoding="utf-8").strip() if active.is_file() else ""
    if profile in ("", "default"):
        return root
    base = root.parent.parent if root.parent.name == "profiles" else root
    return base / "profiles" / profile


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise CommandError("reading Hermes' configuration requires PyYAML.") from None
    return yaml.safe_load(text)


def _dotenv(text: str) -> dict[str, str]:
    lines = (line.removeprefix("export ") for line in text.splitlines() if "=" in line)
    pairs = (line.partition("=") for line in lines)
    return {k.strip(): v.strip().strip("\"'") for k, _, v in pairs if not k.startswith("#")}

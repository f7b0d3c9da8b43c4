"""What Hermes is set to: the user's configuration and `.env`, an administrator's over them."""

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
class HermesSet:
    """Configuration and variables in force; `overlay` and `env` are what this run adds."""

    given: RunRequest
    managed: Json
    managed_env: dict[str, str]
    config: Json
    variables: Mapping[str, str]
    asks_mcp: bool
    overlay: Json = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    @property
    def model(self) -> Json:
        """The section of the model in use."""
        return table(self.config.get("model"))

    def expanded(self, value: object) -> str:
        """A value of the configuration with its `${NAME}`s, as Hermes fills them in."""
        known = self.variables
        return re.sub(r"\$\{([^}]+)\}", lambda name: known.get(name[1], name[0]), str(value or ""))

    @property
    def provider(self) -> str:
        """As Hermes finds it: option, configuration, variable."""
        told = value_of(self.given.arguments, "--provider") or self.model.get("provider")
        return str(told or self.variables.get("HERMES_INFERENCE_PROVIDER") or "auto").lower()


def read_hermes(given: RunRequest) -> HermesSet:
    """Raises CommandError when a file of Hermes' cannot be read."""
    home = _home(given)
    folder = Path(given.get(VARIABLE) or MANAGED)
    managed = read_file(folder / "config.yaml", _yaml)
    managed_env = read_file(folder / ".env", _dotenv)
    own = read_file(home / "config.yaml", _yaml)
    if isinstance(own.get("model"), str):
        own["model"] = {"default": own["model"]}
    variables = {**given.environment, **read_file(home / ".env", _dotenv), **managed_env}
    return HermesSet(
        given, managed, managed_env, merged(own, managed), variables, bool(own.get("mcp_servers"))
    )


def _home(given: RunRequest) -> Path:
    """Hermes' home, of the profile in use."""
    root = Path(given.get("HERMES_HOME") or given.home / ".hermes").expanduser()
    profile = value_of(given.arguments, "--profile", "-p")
    if not profile and not given.get("HERMES_HOME"):
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
        raise CommandError("to read Hermes' configuration wrap needs PyYAML.") from None
    return yaml.safe_load(text)


def _dotenv(text: str) -> dict[str, str]:
    lines = (line.removeprefix("export ") for line in text.splitlines() if "=" in line)
    pairs = (line.partition("=") for line in lines)
    return {k.strip(): v.strip().strip("\"'") for k, _, v in pairs if not k.startswith("#")}

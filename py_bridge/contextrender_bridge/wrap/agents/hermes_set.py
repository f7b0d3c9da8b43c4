"""What Hermes is set to: the user's configuration and `.env`, an administrator's over them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.wrap.agents.base import Given, merged, value_of

VARIABLE = "HERMES_MANAGED_DIR"
MANAGED = Path("/etc/hermes")


@dataclass
class HermesSet:
    """Configuration and variables in force; `overlay` and `env` are what this run adds."""

    given: Given
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
        found = self.config.get("model")
        return found if isinstance(found, dict) else {}

    def expanded(self, value: object) -> str:
        """A value of the configuration with its `${NAME}`s, as Hermes fills them in."""
        known = self.variables
        return re.sub(r"\$\{([^}]+)\}", lambda name: known.get(name[1], name[0]), str(value or ""))

    @property
    def provider(self) -> str:
        """As Hermes finds it: option, configuration, variable."""
        told = value_of(self.given.arguments, "--provider") or self.model.get("provider")
        return str(told or self.variables.get("HERMES_INFERENCE_PROVIDER") or "auto").lower()


def read_hermes(given: Given) -> HermesSet:
    """Raises CommandError when a file of Hermes' cannot be read."""
    home = _home(given)
    folder = Path(given.get(VARIABLE) or MANAGED)
    managed, managed_env = _yaml(folder / "config.yaml"), _dotenv(folder / ".env")
    own = _yaml(home / "config.yaml")
    if isinstance(own.get("model"), str):
        own["model"] = {"default": own["model"]}
    variables = {**given.environment, **_dotenv(home / ".env"), **managed_env}
    return HermesSet(
        given, managed, managed_env, merged(own, managed), variables, bool(own.get("mcp_servers"))
    )


def _home(given: Given) -> Path:
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


def _yaml(path: Path) -> Json:
    try:
        import yaml
    except ImportError:
        raise CommandError("to read Hermes' configuration wrap needs PyYAML.") from None
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CommandError(f"{path} cannot be read ({type(error).__name__}).") from None
    return found if isinstance(found, dict) else {}


def _dotenv(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} cannot be read ({type(error).__name__}).") from None
    pairs = (line.removeprefix("export ").partition("=") for line in lines if "=" in line)
    return {k.strip(): v.strip().strip("\"'") for k, _, v in pairs if not k.startswith("#")}

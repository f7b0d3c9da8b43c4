"""Reads Hermes' settings: the user's configuration and `.env`, overridden by an administrator's."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.wrap.agents.base import RunRequest, as_object, merge, read_file

MANAGED_FOLDER_VARIABLE = "HERMES_MANAGED_DIR"
"""The variable that names the administrator's folder."""
MANAGED_FOLDER = Path("/etc/hermes")


@dataclass
class HermesSettings:
    """The settings with which Hermes runs, and the changes that this run makes to them."""

    request: RunRequest
    managed: Json
    """The administrator's configuration."""
    managed_env: dict[str, str]
    """The administrator's variables."""
    config: Json
    """The effective configuration: the user's, overridden by the administrator's."""
    variables: Mapping[str, str]
    """The effective variables."""
    has_mcp_servers: bool
    """True if the user's own configuration has MCP servers. Otherwise Hermes connects to none."""
    overlay: Json = field(default_factory=dict)
    """The configuration that this run adds."""
    env: dict[str, str] = field(default_factory=dict)
    """The variables that this run adds."""

    @property
    def model(self) -> Json:
        """The `model` section of the configuration."""
        return as_object(self.config.get("model"))

    def expanded(self, value: object) -> str:
        """Return a value of the configuration with each `${NAME}` replaced by the variable."""
        variables = self.variables
        return re.sub(
            r"\$\{([^}]+)\}", lambda name: variables.get(name[1], name[0]), str(value or "")
        )

    @property
    def provider(self) -> str:
        """The provider's name in lower case; "auto" if none is named.

        Hermes reads it from the option, else from the configuration, else from a variable.
        """
        name = self.request.value_of("--provider") or self.model.get("provider")
        return str(name or self.variables.get("HERMES_INFERENCE_PROVIDER") or "auto").lower()


def read_hermes_settings(request: RunRequest) -> HermesSettings:
    """Return the settings of a run of Hermes: the user's, overridden by the administrator's.

    Raise CommandError if one of the files cannot be read.
    """
    home = _home(request)
    folder = Path(request.get(MANAGED_FOLDER_VARIABLE) or MANAGED_FOLDER)
    managed = read_file(folder / "config.yaml", _yaml)
    managed_env = read_file(folder / ".env", _dotenv)
    user_config = read_file(home / "config.yaml", _yaml)
    if isinstance(user_config.get("model"), str):  # a short form of the section
        user_config["model"] = {"default": user_config["model"]}
    variables = {**request.environment, **read_file(home / ".env", _dotenv), **managed_env}
    return HermesSettings(
        request,
        managed,
        managed_env,
        merge(user_config, managed),
        variables,
        # Hermes ignores the administrator's servers if the user's configuration has none.
        has_mcp_servers=bool(user_config.get("mcp_servers")),
    )


def _home(request: RunRequest) -> Path:
    """Return the home folder of the profile with which Hermes runs.

    The option names the profile. Without it, `HERMES_HOME` is the folder, or a file names the
    active profile. The default profile has Hermes' common folder.
    """
    folder = Path(request.get("HERMES_HOME") or request.home / ".hermes").expanduser()
    profile = request.value_of("--profile", "-p")
    if not profile and not request.get("HERMES_HOME"):
        file = folder / "active_profile"
        profile = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    if profile in ("", "default"):
        return folder
    # HERMES_HOME may be the folder of another profile. Then this profile's folder is beside it.
    common_folder = folder.parent.parent if folder.parent.name == "profiles" else folder
    return common_folder / "profiles" / profile


def _yaml(text: str) -> Any:
    """Return the value of a YAML text. Raise CommandError if PyYAML is not installed."""
    try:
        import yaml
    except ImportError:
        raise CommandError("reading Hermes' configuration requires PyYAML.") from None
    return yaml.safe_load(text)


def _dotenv(text: str) -> dict[str, str]:
    """Return the variables in the text of an `.env` file, which has lines such as `NAME=value`."""
    variables = {}
    for line in text.splitlines():
        name, equals_sign, value = line.removeprefix("export ").partition("=")
        if equals_sign and not name.startswith("#"):
            variables[name.strip()] = value.strip().strip("\"'")
    return variables

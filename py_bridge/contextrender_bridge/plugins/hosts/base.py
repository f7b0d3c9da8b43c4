"""The base class of the agents for which there is a plugin."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.plugins.changes import Change
from contextrender_bridge.plugins.options import COMPACT, PluginOptions, shipped_file

Version = tuple[int, ...]
VERSION_SECONDS: Final = 30.0
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+")
LIBRARY: Final = "contextrender.js"


class Host(ABC):
    """An agent for which there is a plugin.

    - `program`, `title`: its command and its name.
    - `least_version`: the oldest version that the plugin supports.
    - `render_version`: the oldest version for the mode `render`; empty if the agent lacks the mode.
    - `modes`: the possible modes, the default first.
    """

    program: str
    title: str
    least_version: Version
    render_version: Version = ()
    modes: tuple[str, ...] = (COMPACT,)

    @abstractmethod
    def install(self, options: PluginOptions) -> list[Change]:
        """Return the changes that install the plugin. Raise CommandError if it is not possible."""

    @abstractmethod
    def uninstall(self, data: Path) -> list[Change]:
        """Return the changes that remove the plugin; empty if nothing of it is installed."""

    @abstractmethod
    def is_installed(self, data: Path) -> bool:
        """Return whether the plugin is installed for this user."""

    def problem(self) -> str:
        """Return why an installed plugin does not work, as a sentence; empty if it works."""
        return ""

    def after_install(self) -> list[str]:
        """Return sentences about what the user must still do after the installation."""
        return []

    def version(self) -> Version:
        """Return the version of the agent's program; empty if it is unknown."""
        try:
            process = subprocess.run(
                [self.program, "--version"],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=VERSION_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ()
        match = _VERSION.search(process.stdout) or _VERSION.search(process.stderr)
        return tuple(int(part) for part in match[0].split(".")) if match else ()

    def check(self, options: PluginOptions) -> None:
        """Raise CommandError if the agent lacks the mode, is not installed, or is too old.

        An unknown version is accepted.
        """
        if options.mode not in self.modes:
            raise CommandError(
                f"the plugin for {self.title} has the modes {', '.join(self.modes)}, and no "
                f"{options.mode}."
            )
        if shutil.which(self.program) is None:
            raise CommandError(f"{self.program} is not installed.")
        version = self.version()
        needed = self.render_version if options.mode == "render" else self.least_version
        if version and version < needed:
            raise CommandError(
                f"{self.title} {dotted(version)} is too old: the plugin in mode {options.mode} "
                f"needs {dotted(needed)} or newer."
            )


def dotted(version: Version) -> str:
    """Return a version as text, such as `1.17.0`."""
    return ".".join(map(str, version))


def library_files(options: PluginOptions, agent: str, *names: str) -> dict[str, str]:
    """Return the texts of the files that a JavaScript plugin needs beside its own, by file name.

    These are the shared library, the shipped files `names`, and `settings.js` for the agent.
    """
    shared = {name: shipped_file(name) for name in (LIBRARY, *names)}
    return {**shared, "settings.js": options.settings_file(agent)}


def folder_of(variable: str, default: Sequence[str]) -> Path:
    """Return the folder that an environment variable names, or `default` in the user's home."""
    folder = os.environ.get(variable)
    return Path(folder).expanduser() if folder else Path.home().joinpath(*default)

"""An agent that a plugin can be installed in."""

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
    """An agent. `program` is its command, `title` its name, and `least_version` the oldest version.

    `render_version` is the oldest version that can render each call; it is empty if none can.
    """

    program: str
    title: str
    least_version: Version
    render_version: Version = ()
    modes: tuple[str, ...] = (COMPACT,)

    @abstractmethod
    def install(self, options: PluginOptions) -> list[Change]:
        """Return the changes that install the plugin. Raise CommandError if that cannot be."""

    @abstractmethod
    def uninstall(self, data: Path) -> list[Change]:
        """Return the changes that undo the installation; there are none if nothing is left."""

    @abstractmethod
    def is_installed(self, data: Path) -> bool:
        """Return whether the plugin is installed for this user."""

    def problem(self) -> str:
        """Return a sentence on what keeps an installed plugin from working, or nothing."""
        return ""

    def after_install(self) -> list[str]:
        """Return what the user still has to do, as sentences."""
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
        """Raise CommandError if the mode or the agent's version does not fit."""
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
    """Return a version as it is written."""
    return ".".join(map(str, version))


def library_files(options: PluginOptions, agent: str, *names: str) -> dict[str, str]:
    """Return the files that each JavaScript plugin needs beside its own, and these more."""
    shared = {name: shipped_file(name) for name in (LIBRARY, *names)}
    return {**shared, "settings.js": options.settings_file(agent)}


def folder_of(variable: str, default: Sequence[str]) -> Path:
    """Return the folder that a variable names, or the default below the user's home."""
    folder = os.environ.get(variable)
    return Path(folder).expanduser() if folder else Path.home().joinpath(*default)

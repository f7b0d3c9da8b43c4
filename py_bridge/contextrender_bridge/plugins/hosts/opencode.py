"""opencode: a plugin in the user's folder of plugins."""

from __future__ import annotations

from pathlib import Path

from contextrender_bridge.plugins.changes import Change, Remove, WriteFiles
from contextrender_bridge.plugins.hosts.base import Host, folder_of, library_files
from contextrender_bridge.plugins.options import (
    AFTER_SUMMARY,
    COMPACT,
    RENDER,
    PluginOptions,
    shipped_file,
)

PLUGIN = "contextrender.js"
LIBRARY_FOLDER = "contextrender"


class OpenCodeHost(Host):
    """Installer of the plugin for opencode."""

    program = "opencode"
    title = "opencode"
    least_version = (1, 17, 0)
    render_version = (1, 17, 0)
    modes = (COMPACT, AFTER_SUMMARY, RENDER)

    def install(self, options: PluginOptions) -> list[Change]:
        """Return the changes that install the plugin. Raise CommandError if it is not possible."""
        self.check(options)
        library = library_files(options, "opencode", "node_host.js")
        texts = {f"{LIBRARY_FOLDER}/{name}": text for name, text in library.items()}
        texts[PLUGIN] = shipped_file("opencode", PLUGIN)
        return [WriteFiles(_folder(), texts)]

    def uninstall(self, data: Path) -> list[Change]:
        """Return the changes that remove the plugin; empty if nothing of it is installed."""
        paths = (_folder() / PLUGIN, _folder() / LIBRARY_FOLDER)
        return [Remove(path) for path in paths if path.exists()]

    def is_installed(self, data: Path) -> bool:
        """Return whether the plugin is installed for this user."""
        return (_folder() / PLUGIN).is_file()


def _folder() -> Path:
    return folder_of("XDG_CONFIG_HOME", (".config",)) / "opencode" / "plugins"

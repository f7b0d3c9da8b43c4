"""pi: an extension in the user's folder of extensions."""

from __future__ import annotations

from pathlib import Path

from contextrender_bridge.plugins.changes import Change, Remove, WriteFiles
from contextrender_bridge.plugins.hosts.base import Host, folder_of, library_files
from contextrender_bridge.plugins.options import COMPACT, RENDER, PluginOptions, shipped_file


class PiHost(Host):
    """Installer of the plugin for pi."""

    program = "pi"
    title = "pi"
    least_version = (0, 73, 1)
    render_version = (0, 73, 1)
    modes = (COMPACT, RENDER)

    def install(self, options: PluginOptions) -> list[Change]:
        """Return the changes that install the plugin. Raise CommandError if it is not possible."""
        self.check(options)
        texts = {
            **library_files(options, "pi", "node_host.js"),
            "index.js": shipped_file("pi", "index.js"),
            "package.json": '{"type": "module", "private": true}\n',
        }
        return [WriteFiles(_folder(), texts)]

    def uninstall(self, data: Path) -> list[Change]:
        """Return the changes that remove the plugin; empty if nothing of it is installed."""
        return [Remove(_folder())] if _folder().exists() else []

    def is_installed(self, data: Path) -> bool:
        """Return whether the plugin is installed for this user."""
        return (_folder() / "index.js").is_file()


def _folder() -> Path:
    home = folder_of("PI_CODING_AGENT_DIR", (".pi", "agent"))
    return home / "extensions" / "contextrender"

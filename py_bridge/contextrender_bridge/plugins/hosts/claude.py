"""Claude Code: a plugin module from a marketplace that is a local folder."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

from contextrender_bridge.base.wire import Json
from contextrender_bridge.plugins.changes import Change, Remove, RunProgram, WriteFiles
from contextrender_bridge.plugins.hosts.base import Host, folder_of, library_files
from contextrender_bridge.plugins.options import (
    AFTER_SUMMARY,
    COMPACT,
    RENDER,
    PluginOptions,
    shipped_file,
)

NAME: Final = "contextrender"
PLUGIN: Final = f"{NAME}@{NAME}"
DESCRIPTION: Final = (
    "Keeps the tool results that later steps need when a conversation is compacted."
)
MANAGED: Final = (
    Path("/Library/Application Support/ClaudeCode")
    if sys.platform == "darwin"
    else Path("/etc/claude-code")
) / "managed-settings.json"


class ClaudeHost(Host):
    """Installer of the plugin for Claude Code."""

    program = "claude"
    title = "Claude Code"
    least_version = (2, 1, 310)
    render_version = (2, 1, 329)
    modes = (COMPACT, AFTER_SUMMARY, RENDER)

    def install(self, options: PluginOptions) -> list[Change]:
        """Return the changes that install the plugin. Raise CommandError if it is not possible.

        They write a marketplace with the plugin into the data folder, and let Claude Code install
        it from there. They uninstall an earlier version first.
        """
        self.check(options)
        # The marketplace lists one plugin, which has a manifest and its hooks.
        folder = marketplace(options.data)
        owner = {"name": "ContextRender"}
        about = {"name": NAME, "description": DESCRIPTION}
        listing = {**about, "owner": owner, "plugins": [{**about, "source": f"./{NAME}"}]}
        manifest = {**about, "version": version(NAME), "author": owner}
        hooks = {
            **library_files(options, "claude-code"),
            "register.js": shipped_file("claude", "hooks", "register.js"),
            "hooks.json": json.dumps({"modules": ["./register.js"]}) + "\n",
        }
        # The files of the marketplace, by path.
        texts = {
            ".claude-plugin/marketplace.json": json.dumps(listing, indent=2) + "\n",
            f"{NAME}/.claude-plugin/plugin.json": json.dumps(manifest, indent=2) + "\n",
            **{f"{NAME}/hooks/{name}": text for name, text in hooks.items()},
        }
        plugin = [self.program, "plugin"]
        return [
            RunProgram([*plugin, "uninstall", PLUGIN], may_fail=True),
            WriteFiles(folder, texts),
            RunProgram([*plugin, "marketplace", "add", str(folder)]),
            RunProgram([*plugin, "install", PLUGIN]),
        ]

    def uninstall(self, data: Path) -> list[Change]:
        """Return the changes that remove the plugin; empty if nothing of it is installed."""
        changes: list[Change] = []
        # Let Claude Code remove what it has registered, then remove the files.
        if self.is_installed(data) or NAME in _settings().get("extraKnownMarketplaces", {}):
            plugin = [self.program, "plugin"]
            changes += [
                RunProgram([*plugin, "uninstall", PLUGIN], may_fail=True),
                RunProgram([*plugin, "marketplace", "remove", NAME], may_fail=True),
            ]
        cache = _home() / "plugins" / "cache" / NAME
        changes += [Remove(path) for path in (cache, marketplace(data)) if path.exists()]
        return changes

    def is_installed(self, data: Path) -> bool:
        """Return whether the plugin is installed for this user."""
        return PLUGIN in _settings().get("enabledPlugins", {})

    def problem(self) -> str:
        """Return why an installed plugin does not work, as a sentence; empty if it works."""
        for path in (MANAGED, _home() / "settings.json"):
            settings = _read(path)
            if settings.get("disableAllHooks") or settings.get("allowManagedHooksOnly"):
                return f"{path} switches hooks off, and plugins with them."
        if _settings().get("enabledPlugins", {}).get(PLUGIN) is False:
            return f"the plugin is disabled: `claude plugin enable {PLUGIN}`."
        return ""


def marketplace(data: Path) -> Path:
    """Return the folder of the marketplace from which Claude Code installs the plugin."""
    return data / "plugins" / "claude"


def _home() -> Path:
    return folder_of("CLAUDE_CONFIG_DIR", (".claude",))


def _settings() -> Json:
    return _read(_home() / "settings.json")


def _read(path: Path) -> Json:
    """Return the object in a JSON file; empty if there is none that can be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}

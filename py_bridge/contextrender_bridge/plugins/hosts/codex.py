"""Codex: a hook and an MCP server in the user's configuration, between two marks."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from pathlib import Path
from typing import Any, Final

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.plugins.changes import Change, Rewrite
from contextrender_bridge.plugins.hosts.base import Host, folder_of
from contextrender_bridge.plugins.options import AFTER_SUMMARY, PluginOptions

FIRST_MARK: Final = "# >>> contextrender (written by `contextrender install codex`)"
LAST_MARK: Final = "# <<< contextrender"
_BLOCK: Final = re.compile(rf"\n*{re.escape(FIRST_MARK)}\n.*?{re.escape(LAST_MARK)}\n?", re.DOTALL)
HOOK_SECONDS: Final = 20
SPARE_TOKENS: Final = 1_000
"""By how many tokens Codex may count the text higher than we do."""


class CodexHost(Host):
    """Codex."""

    program = "codex"
    title = "Codex"
    least_version = (0, 169, 0)
    modes = (AFTER_SUMMARY,)

    def install(self, options: PluginOptions) -> list[Change]:
        """Return the changes that install the plugin. Raise CommandError if that cannot be."""
        self.check(options)
        path = _config()
        old = _text(path)
        new = with_block(old, _settings(options))
        return [Rewrite(path, new, "add a hook and an MCP server")] if new != old else []

    def uninstall(self, data: Path) -> list[Change]:
        """Return the changes that undo the installation; there are none if nothing is left."""
        path = _config()
        old = _text(path)
        new = without_block(old)
        return [Rewrite(path, new, "remove our hook and MCP server")] if new != old else []

    def is_installed(self, data: Path) -> bool:
        """Return whether the plugin is installed for this user."""
        return FIRST_MARK in _text(_config())

    def problem(self) -> str:
        """Return a sentence on what keeps an installed plugin from working, or nothing."""
        features = _parse(_text(_config())).get("features", {})
        if isinstance(features, dict) and features.get("hooks") is False:
            return f"{_config()} switches hooks off ([features] hooks = false)."
        return ""


def with_block(text: str, settings: str) -> str:
    """Return a configuration with our part at its end. Raise CommandError if TOML forbids it."""
    user_text = without_block(text)
    text_before = f"{user_text.rstrip()}\n\n" if user_text.strip() else ""
    joined_text = f"{text_before}{FIRST_MARK}\n{settings}{LAST_MARK}\n"
    try:
        _parse(joined_text)
    except ValueError as error:
        raise CommandError(f"{_config()} cannot be extended ({error}).") from None
    return joined_text


def without_block(text: str) -> str:
    """Return a configuration without our part."""
    if FIRST_MARK not in text:
        return text
    remaining_text = _BLOCK.sub("\n", text)
    return remaining_text if remaining_text.strip() else ""


def _settings(options: PluginOptions) -> str:
    hook = shlex.join([*options.command("codex_hook"), str(options.tokens)])
    python, *words = options.command_line("mcp")
    return (
        "[[hooks.SessionStart]]\n"
        'matcher = "compact"\n\n'
        "[[hooks.SessionStart.hooks]]\n"
        'type = "command"\n'
        f"command = {json.dumps(hook)}\n"
        f"timeout = {HOOK_SECONDS}\n"
        f"additionalContextLimit = {options.tokens + SPARE_TOKENS}\n\n"
        "[mcp_servers.contextrender]\n"
        f"command = {json.dumps(python)}\n"
        f"args = {json.dumps(words)}\n"
        f"env = {{ CONTEXTRENDER_DATA = {json.dumps(str(options.data))} }}\n"
        'default_tools_approval_mode = "approve"\n'
    )


def _config() -> Path:
    return folder_of("CODEX_HOME", (".codex",)) / "config.toml"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read ({type(error).__name__}).") from None


def _parse(text: str) -> dict[str, Any]:
    """Return a configuration's tables; on Python 3.10, which reads no TOML, none."""
    try:
        parsed: dict[str, Any] = importlib.import_module("tomllib").loads(text)
    except ImportError:
        return {}
    return parsed

"""Codex: two hooks and an MCP server in the user's configuration.

They are a block between two marked lines. Codex may write tables of its own into the block.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
from pathlib import Path
from typing import Any, Final

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.plugins.changes import Change, Remove, Rewrite
from contextrender_bridge.plugins.hosts.base import Host, folder_of
from contextrender_bridge.plugins.options import AFTER_SUMMARY, PluginOptions

FIRST_MARK: Final = "# >>> contextrender (written by `contextrender install codex`)"
LAST_MARK: Final = "# <<< contextrender"
_BLOCK: Final = re.compile(
    rf"\n*{re.escape(FIRST_MARK)}\n(.*?){re.escape(LAST_MARK)}\n?", re.DOTALL
)
_TABLE: Final = re.compile(r"^(?=\[)", re.MULTILINE)
_EVENTS: Final = {"SessionStart": "session_start", "Stop": "stop"}
"""The events of our hooks, with their names in Codex's tables for trusted hooks."""
_OWN_TABLES: Final = (*(f"[[hooks.{event}" for event in _EVENTS), "[mcp_servers.contextrender")
_TRUST_TABLE: Final = "[hooks.state]"
"""Codex's table for the hooks that the user trusts."""
_HOOK_TRUST_TABLE: Final = "[hooks.state."
"""The start of Codex's table for one trusted hook."""
HOOK_SECONDS: Final = 20
START_SECONDS: Final = 60
"""Seconds that Codex waits for the MCP server, which loads slowly on a busy machine."""
SPARE_TOKENS: Final = 1_000
"""Added to the limit of tokens, because Codex may count more tokens than the service."""


class CodexHost(Host):
    """Installer of the plugin for Codex."""

    program = "codex"
    title = "Codex"
    least_version = (0, 169, 0)
    modes = (AFTER_SUMMARY,)

    def install(self, options: PluginOptions) -> list[Change]:
        """Return the changes that install the plugin. Raise CommandError if it is not possible."""
        self.check(options)
        path = _config()
        old = _text(path)
        new = with_block(old, _settings(options))
        if new == old:
            return []
        return [Rewrite(path, new, "add two hooks and an MCP server")]

    def uninstall(self, data: Path) -> list[Change]:
        """Return the changes that remove the plugin; empty if nothing of it is installed."""
        path = _config()
        old = _text(path)
        new = without_block(old)
        if new == old:
            return []
        return [Rewrite(path, new, "remove our hooks and MCP server") if new else Remove(path)]

    def is_installed(self, data: Path) -> bool:
        """Return whether the plugin is installed for this user."""
        return FIRST_MARK in _text(_config())

    def problem(self) -> str:
        """Return why an installed plugin does not work, as a sentence; empty if it works."""
        features = _parse(_text(_config())).get("features", {})
        if isinstance(features, dict) and features.get("hooks") is False:
            return f"{_config()} switches hooks off ([features] hooks = false)."
        return ""


def with_block(text: str, settings: str) -> str:
    """Return the configuration `text` with our block at its end, in place of an earlier block.

    `settings` is the text of our tables, which the block shall have. Return `text` unchanged if its
    block has exactly these tables of ours. Raise CommandError if the result is no valid TOML.
    """
    match = _BLOCK.search(text)
    if match and _own_tables(match[1]) == settings.strip():
        return text
    user_text = without_block(text)
    text_before = f"{user_text.rstrip()}\n\n" if user_text.strip() else ""
    joined_text = f"{text_before}{FIRST_MARK}\n{settings}{LAST_MARK}\n"
    try:
        _parse(joined_text)
    except ValueError as error:
        raise CommandError(f"{_config()} cannot be extended ({error}).") from None
    return joined_text


def without_block(text: str) -> str:
    """Return the configuration `text` without our block.

    Keep tables that Codex has written into the block, but not its trust in our hooks.
    """
    match = _BLOCK.search(text)
    if match is None:
        return text
    text_before, text_after = text[: match.start()], text[match.end() :]
    parts = [
        text_before.rstrip("\n"),
        *_tables_by_codex(match[1], text_before),
        text_after.strip("\n"),
    ]
    remaining_text = "\n\n".join(part for part in parts if part.strip())
    return f"{remaining_text}\n" if remaining_text else ""


def _own_tables(block: str) -> str:
    """Return the text of our tables in a block, without tables that Codex wrote into it."""
    return "".join(filter(_is_own, _TABLE.split(block))).strip()


def _is_own(table: str) -> bool:
    return table.startswith(_OWN_TABLES)


def _tables_by_codex(block: str, text_before: str) -> list[str]:
    """Return the tables that Codex wrote into our block, without the user's trust in our hooks.

    Codex has a table for each trusted hook. Its name ends with the hook's event and the number of
    the hook's group, as in `:stop:2:0"]` for the third group of the event `Stop`. Our group comes
    after the groups in `text_before`. The table `[hooks.state]` is for all trusted hooks: leave it
    out, too, if no other hook is trusted.
    """
    # The ends of the names of the tables for our hooks.
    own_trust = tuple(
        f':{name}:{text_before.count(f"[[hooks.{event}]]")}:0"]' for event, name in _EVENTS.items()
    )
    tables = []
    for text in _TABLE.split(block):
        table = text.strip("\n")
        first_line = table.partition("\n")[0]
        if table and not _is_own(table) and not first_line.endswith(own_trust):
            tables.append(table)
    trusts_other_hook = any(table.startswith(_HOOK_TRUST_TABLE) for table in tables)
    return [table for table in tables if trusts_other_hook or not table.startswith(_TRUST_TABLE)]


def _settings(options: PluginOptions) -> str:
    """Return the tables of our block in Codex's configuration: the hooks and the MCP server."""
    # The service runs as long as the first hook's parent. With `exec`, the parent is Codex, and not
    # a shell.
    hook = f"exec {shlex.join([*options.command('codex_hook'), str(options.tokens)])}"
    # The second hook reports usage, and the MCP server has the tool `recall`.
    usage_hook = f"exec {shlex.join(options.command('codex_usage'))}"
    python, *words = options.command_line("mcp")
    return (
        "[[hooks.SessionStart]]\n"
        "[[hooks.SessionStart.hooks]]\n"
        'type = "command"\n'
        f"command = {json.dumps(hook)}\n"
        f"timeout = {HOOK_SECONDS}\n"
        f"additionalContextLimit = {options.tokens + SPARE_TOKENS}\n\n"
        "[[hooks.Stop]]\n"
        "[[hooks.Stop.hooks]]\n"
        'type = "command"\n'
        f"command = {json.dumps(usage_hook)}\n"
        f"timeout = {HOOK_SECONDS}\n\n"
        "[mcp_servers.contextrender]\n"
        f"command = {json.dumps(python)}\n"
        f"args = {json.dumps(words)}\n"
        f"env = {{ CONTEXTRENDER_DATA = {json.dumps(str(options.data))} }}\n"
        'default_tools_approval_mode = "approve"\n'
        f"startup_timeout_sec = {START_SECONDS}\n"
    )


def _config() -> Path:
    return folder_of("CODEX_HOME", (".codex",)) / "config.toml"


def _text(path: Path) -> str:
    """Return a file's text, empty if there is no file. Raise CommandError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read ({type(error).__name__}).") from None


def _parse(text: str) -> dict[str, Any]:
    """Return a configuration's tables; empty on Python 3.10, which cannot read TOML."""
    try:
        parsed: dict[str, Any] = importlib.import_module("tomllib").loads(text)
    except ImportError:
        return {}
    return parsed

"""The options of a plugin, the commands it runs, and the settings file that it reads."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from contextrender_bridge.base.compaction_size import DEFAULT_TOKENS

COMPACT: Final = "compact"
RENDER: Final = "render"
AFTER_SUMMARY: Final = "after-summary"

_REMOVE_CURRENT_FOLDER: Final = "import sys; sys.path = [place for place in sys.path if place]; "
"""Code that removes the current folder from Python's path: an agent's project may have modules
with the same names."""


@dataclass(frozen=True)
class PluginOptions:
    """The options of a plugin: its mode, the tokens of a compaction's text, the data folder."""

    mode: str = COMPACT
    tokens: int = DEFAULT_TOKENS
    data: Path = Path()

    def command(self, module: str = "start") -> list[str]:
        """Return the command that runs `main` of a module of this package.

        Its argument is the data folder.
        """
        code = f"from contextrender_bridge.plugins.{module} import main; main(sys.argv[1:])"
        return [sys.executable, "-c", _REMOVE_CURRENT_FOLDER + code, str(self.data)]

    def command_line(self, *words: str) -> list[str]:
        """Return the command that runs a subcommand of `contextrender`."""
        code = "from contextrender_bridge.cli import main; sys.exit(main(sys.argv[1:]))"
        return [sys.executable, "-c", _REMOVE_CURRENT_FOLDER + code, *words]

    def settings_file(self, agent: str) -> str:
        """Return the text of the module `settings.js` for an agent."""
        settings = {
            "agent": agent,
            "mode": RENDER if self.mode == RENDER else COMPACT,
            "after_summary": self.mode == AFTER_SUMMARY,
            "tokens": self.tokens,
            "data": str(self.data),
            "start": self.command(),
        }
        return f"export const settings = {json.dumps(settings, indent=2)}\n"


def shipped_file(*names: str) -> str:
    """Return the text of a file that runs inside an agent."""
    return files("contextrender_bridge.plugins").joinpath("files", *names).read_text("utf-8")

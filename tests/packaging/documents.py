"""The commands in the README, docs and adapters' READMEs.

A command that needs more than the distribution ends in `# needs X`.
"""

import re
import shlex
import subprocess
from dataclasses import dataclass

from tests.server.servers import REPOSITORY

BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND_LINE = re.compile(r"^\$ ((?:.*\\\n)*.*)", re.MULTILINE)
NEEDS = re.compile(r"\s# needs ([^:\n]+)")


@dataclass(frozen=True)
class DocumentedCommand:
    """A command and its document. `needs` is the text of its mark."""

    document: str
    words: tuple[str, ...]
    needs: str = ""


def documented_commands() -> list[DocumentedCommand]:
    return [command for name, text in texts() for command in _commands(name, text)]


def scripts() -> list[tuple[str, str]]:
    return [
        (name, "\n".join(COMMAND_LINE.findall(block)))
        for name, text in texts()
        for block in BLOCK.findall(text)
        if "$(" in block and not NEEDS.search(block)
    ]


def texts() -> list[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return [(name, (REPOSITORY / name).read_text("utf-8")) for name in listed.stdout.splitlines()]


def _commands(document: str, text: str) -> list[DocumentedCommand]:
    commands = []
    for block in BLOCK.findall(text):
        if "$(" in block:
            continue
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line[2:], comments=True) if line.startswith("$ ") else []
            if words:
                needs = NEEDS.search(line)
                kept_words = tuple(word for word in words if word != "&")
                commands.append(
                    DocumentedCommand(document, kept_words, needs[1].strip() if needs else "")
                )
    return commands

"""The commands that the README, docs and adapters' READMEs tell a reader to give.

A command that a fresh environment with the distribution alone cannot run says so where it stands:
it ends in `# needs X`.
"""

import re
import shlex
import subprocess
from dataclasses import dataclass

from tests.server.servers import REPOSITORY

BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"^\$ ((?:.*\\\n)*.*)", re.MULTILINE)
NEEDS = re.compile(r"\s# needs ([^:\n]+)")


@dataclass(frozen=True)
class Told:
    """One command, and the document that has it. `needs` is what its mark says."""

    document: str
    words: tuple[str, ...]
    needs: str = ""


def told() -> list[Told]:
    return [one for name, text in texts() for one in _commands(name, text)]


def scripts() -> list[tuple[str, str]]:
    return [
        (name, "\n".join(SAID.findall(block)))
        for name, text in texts()
        for block in BLOCK.findall(text)
        if "$(" in block and not NEEDS.search(block)
    ]


def texts() -> list[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return [(name, (REPOSITORY / name).read_text("utf-8")) for name in listed.stdout.splitlines()]


def _commands(document: str, text: str) -> list[Told]:
    found = []
    for block in BLOCK.findall(text):
        if "$(" in block:
            continue
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line[2:], comments=True) if line.startswith("$ ") else []
            if words:
                needs = NEEDS.search(line)
                kept = tuple(word for word in words if word != "&")
                found.append(Told(document, kept, needs[1].strip() if needs else ""))
    return found

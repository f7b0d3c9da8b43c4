"""The commands that the README, docs and adapters' READMEs tell a reader to give."""

import re
import shlex
import subprocess
from dataclasses import dataclass

from tests.server.servers import REPOSITORY

BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
RECORDED = ("toolathlon.jsonl.gz",)
"""Runs that a reader has to have: no command of these is run in a test."""


@dataclass(frozen=True)
class Told:
    """One command, and the document that has it."""

    document: str
    words: tuple[str, ...]

    @property
    def needs_recorded_runs(self) -> bool:
        """Whether it reads runs that do not come with the distribution."""
        return any(word in RECORDED for word in self.words)


def told() -> list[Told]:
    """All of them, in order, without what a shell does with them."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    return [
        Told(document, words)
        for document in listed.stdout.splitlines()
        for words in _commands((REPOSITORY / document).read_text(encoding="utf-8"))
    ]


def of_the_distribution() -> list[Told]:
    """Those that are `contextrender ...`."""
    return [one for one in told() if one.words[0] == "contextrender"]


def _commands(text: str) -> list[tuple[str, ...]]:
    found = []
    for block in BLOCK.findall(text):
        joined = block.replace("\\\n", " ")
        for line in joined.splitlines():
            if line.startswith("$ ") and "$(" not in line:
                words = shlex.split(line[2:], comments=True)
                found.append(tuple(word for word in words if word != "&"))
    return [words for words in found if words]

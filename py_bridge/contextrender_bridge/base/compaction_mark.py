"""The marks around the text that replaces a history, by which the next compaction continues it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LAST_LINE: Final = "[End of the ContextRender compaction]"
_FIRST_LINE: Final = re.compile(
    r"^\[ContextRender compaction: branch (\d{1,9}), (\d{1,9}) messages, ([^\]\s]+)\]$",
    re.MULTILINE,
)
CODE_CHARACTERS: Final = 8


@dataclass(frozen=True, slots=True)
class CompactedBranch:
    """The branch and the number of its messages that a text replaces, and their digest.

    The `code` marks where a part of the text begins: no tool can have written it into a result,
    because the digest depends on all results.
    """

    number: int
    messages: int
    digest: str

    @property
    def first_line(self) -> str:
        """The line that says which messages the text replaces."""
        return (
            f"[ContextRender compaction: branch {self.number}, {self.messages} messages, "
            f"{self.digest}]"
        )

    @property
    def code(self) -> str:
        """The code in the first line of each part."""
        return self.digest[:CODE_CHARACTERS]


def find_compaction(text: str) -> tuple[CompactedBranch, str] | None:
    """Return what the newest compaction in a text replaces, and what follows it in that text."""
    marks = list(_FIRST_LINE.finditer(text))
    if not marks:
        return None
    number, messages, digest = marks[-1].groups()
    _, _, text_after = text[marks[-1].end() :].rpartition(LAST_LINE)
    return CompactedBranch(int(number), int(messages), digest), text_after.strip()

"""The first and the last line of the text that replaces a history at a compaction.

The first line names the replaced messages, so that the next compaction can continue their branch.
"""

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
    """The messages that a compaction's text replaces.

    They are the first `messages` messages of the branch `number`; `digest` is the branch history's
    digest. The first line of each part of the text has the `code`, which is the digest's beginning.
    No tool can have written the code into a result, because the digest depends on all results.
    """

    number: int
    messages: int
    digest: str

    @property
    def first_line(self) -> str:
        """The line that names the replaced messages."""
        return (
            f"[ContextRender compaction: branch {self.number}, {self.messages} messages, "
            f"{self.digest}]"
        )

    @property
    def code(self) -> str:
        """The first characters of the digest, which mark each part of the compaction's text."""
        return self.digest[:CODE_CHARACTERS]


def find_compaction(text: str) -> tuple[CompactedBranch, str] | None:
    """Find the last compaction in a text.

    Return which messages it replaces, and the text after it (after its line `LAST_LINE`). Return
    None if the text has no compaction.
    """
    first_lines = list(_FIRST_LINE.finditer(text))
    if not first_lines:
        return None
    last_compaction = first_lines[-1]
    number, messages, digest = last_compaction.groups()
    _, _, text_after = text[last_compaction.end() :].rpartition(LAST_LINE)
    return CompactedBranch(int(number), int(messages), digest), text_after.strip()

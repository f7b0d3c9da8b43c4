"""What a session is about, for people who look for it: its folder, and how its user began."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from engine.text.tokens import content_text
from engine.text.transcript import Json

LONGEST: Final = 80
LOOKED_AT: Final = 20_000
"""Characters of a text in which a folder is looked for."""

_FOLDER = re.compile(
    r"(?:working directory|<cwd>|cwd):? ?[`\"']?([/~][^\s`\"'<]*|[A-Z]:\\[^\n`\"'<]*)", re.I
)
_ADDED = re.compile(r"<([a-z_-]+)>.*?</\1>", re.S)
"""What agents put around a user's words, such as `<system-reminder>`."""


def opening_of(messages: Sequence[Json]) -> str:
    """The folder's name, if a text says where the agent works, and the user's first words."""
    folder = words = ""
    for message in messages:
        if message["role"] not in ("system", "developer", "user"):
            break
        text = content_text(message.get("content"))
        if not folder and (found := _FOLDER.search(text[:LOOKED_AT])):
            folder = re.split(r"[/\\]", found[1].rstrip("/\\."))[-1]
        if not words and message["role"] == "user":
            words = " ".join(_ADDED.sub(" ", text[:LOOKED_AT]).split())
    told = ": ".join(filter(None, (folder, words)))
    return told if len(told) <= LONGEST else told[: LONGEST - 1] + "…"

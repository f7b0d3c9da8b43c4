"""Sessions from files for the console: what they are, why they went wrong, and what to import."""

from __future__ import annotations

import re
import tempfile
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.files import read_files
from contextrender_bridge.audit.open_command import OpenedSession, sessions_of
from contextrender_bridge.audit.replay import run_of
from contextrender_bridge.audit.run_reader import Recorded
from contextrender_bridge.base.errors import CommandError, InvalidRequest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.evaluation.diagnosis import Diagnosis, diagnose
from contextrender_bridge.evaluation.runs import Run

MOST: Final = 50
"""Sessions of one file, the newest ones."""
LONGEST_NAME: Final = 200
_SUMMARY: Final = re.compile(
    r"continued from a previous|\bsummary\b|\bsummari[sz]ed?\b|compact|another language model", re.I
)
HEAD: Final = 2_000
"""Characters of a beginning that are looked at."""


@dataclass(frozen=True, slots=True)
class UploadedSession:
    """A session of a file, and the `data` to import it with."""

    name: str
    source: str
    model: str
    about: str
    hidden_summaries: int
    diagnosis: Diagnosis
    data: Json


def read_uploaded(name: str, content: str) -> tuple[list[UploadedSession], list[str]]:
    """Return the sessions in a file given as base64, and sentences on what could not be read.

    Raise InvalidRequest if there are none.
    """
    try:
        raw = b64decode(content, validate=True)
    except (NotBase64, ValueError):
        raise InvalidRequest("content must be base64") from None
    found = AuditInput()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (re.sub(r"[^\w.-]", "_", Path(name).name)[-LONGEST_NAME:] or "file")
        path.write_bytes(raw)
        try:
            read_files(path, found)
        except CommandError as error:
            raise InvalidRequest(str(error).replace(f"{folder}/", "")) from None
        found.settle()
    sentences = [sentence.replace(f"{folder}/", "") for sentence in found.sentences]
    sessions = [
        _uploaded(runs)
        for runs in sessions_of(found.runs)[:MOST]
        if any(one.messages and run_of(one) for one in runs)
    ]
    if not sessions:
        raise InvalidRequest(" ".join([f"there are no sessions in {name:.80}", *sentences]))
    return sessions, sentences


def _uploaded(runs: Sequence[Recorded]) -> UploadedSession:
    opened = OpenedSession(runs)
    return UploadedSession(
        runs[0].task,
        runs[0].source,
        opened.model,
        opened.about,
        opened.hidden_summaries,
        opened.diagnosis,
        export_of(runs),
    )


def export_of(runs: Sequence[Recorded]) -> Json:
    """Return a session for `import_session`; its runs are branches that begin anew."""
    branches: list[Json] = []
    for one in runs:
        if one.messages and (made := run_of(one)):
            times = list(accumulate(made.times, max)) or [0.0] * len(made.messages)
            branches.append(
                {
                    "number": len(branches),
                    "parent": -1,
                    "fork_position": 0,
                    "messages": made.messages,
                    "timestamps": times,
                    "calls": [],
                }
            )
    return {
        "format": "contextrender.session/2",
        "session": runs[0].task[:LONGEST_NAME] or "session",
        "settings": {},
        "head": len(branches) - 1,
        "branches": branches,
        "damage": "",
    }


def diagnose_branches(branches: Sequence[tuple[int, int, list[Json]]], model: str) -> Diagnosis:
    """Return what a stored session lost; of each branch its parent, its fork and own messages.

    A branch that begins anew with a summary goes on after the one before it. Others that begin
    anew, such as a subagent's, are histories of their own.
    """
    lines: list[list[Json]] = []
    runs: list[Run] = []
    for number, (parent, fork, own) in enumerate(branches):
        line = [*(lines[parent][:fork] if parent >= 0 else []), *own]
        lines.append(line)
        is_next = parent < 0 and number > 0 and _begins_with_summary(own)
        continues = runs[-1].id if is_next and runs else ""
        if parent < 0 or not fork:
            runs.append(Run(str(number), "", model, line, continues=continues))
        else:
            runs.append(Run(str(number), "", model, line))
    return diagnose(runs)


def _begins_with_summary(messages: Sequence[Json]) -> bool:
    head = [message for message in messages[:3] if message["role"] != "assistant"]
    return any(_SUMMARY.search(str(message.get("content") or "")[:HEAD]) for message in head)

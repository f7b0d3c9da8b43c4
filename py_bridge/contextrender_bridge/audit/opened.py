"""Reads an uploaded file for the console: its sessions, their diagnoses, and the data to import."""

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
from contextrender_bridge.audit.run_reader import RecordedRun
from contextrender_bridge.base.errors import CommandError, InvalidRequest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.evaluation.diagnosis import Diagnosis, diagnose
from contextrender_bridge.evaluation.runs import Run

MAX_SESSIONS: Final = 50
"""The largest number of sessions that are read from one file. The newest ones are read."""
MAX_NAME_CHARS: Final = 200
_SUMMARY_WORDS: Final = re.compile(
    r"continued from a previous|\bsummary\b|\bsummari[sz]ed?\b|compact|another language model", re.I
)
SUMMARY_SEARCH_CHARS: Final = 2_000
"""The number of characters of a message in which a summary's words are searched."""


@dataclass(frozen=True, slots=True)
class UploadedSession:
    """A session in an uploaded file, and the `data` with which `import_session` imports it."""

    name: str
    source: str
    model: str
    about: str
    hidden_summaries: int
    diagnosis: Diagnosis
    data: Json


def read_uploaded(name: str, content: str) -> tuple[list[UploadedSession], list[str]]:
    """Return the sessions in a base64-encoded file, and sentences that name unreadable parts.

    Raise InvalidRequest if `content` is not base64 or the file has no session.
    """
    try:
        raw = b64decode(content, validate=True)
    except (NotBase64, ValueError):
        raise InvalidRequest("content must be base64") from None
    audit_input = AuditInput()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (re.sub(r"[^\w.-]", "_", Path(name).name)[-MAX_NAME_CHARS:] or "file")
        path.write_bytes(raw)
        try:
            read_files(path, audit_input)
        except CommandError as error:
            raise InvalidRequest(str(error).replace(f"{folder}/", "")) from None
        audit_input.settle()
    sentences = [sentence.replace(f"{folder}/", "") for sentence in audit_input.sentences]
    sessions = [
        _uploaded(runs)
        for runs in sessions_of(audit_input.runs)[:MAX_SESSIONS]
        if any(run.messages and run_of(run) for run in runs)
    ]
    if not sessions:
        raise InvalidRequest(" ".join([f"there are no sessions in {name:.80}", *sentences]))
    return sessions, sentences


def _uploaded(runs: Sequence[RecordedRun]) -> UploadedSession:
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


def export_of(runs: Sequence[RecordedRun]) -> Json:
    """Return the runs of a session in the format of `import_session`, each as a separate branch."""
    branches: list[Json] = []
    for recorded_run in runs:
        if recorded_run.messages and (run := run_of(recorded_run)):
            times = list(accumulate(run.times, max)) or [0.0] * len(run.messages)
            branches.append(
                {
                    "number": len(branches),
                    "parent": -1,
                    "fork_position": 0,
                    "messages": run.messages,
                    "timestamps": times,
                    "calls": [],
                }
            )
    return {
        "format": "contextrender.session/2",
        "session": runs[0].task[:MAX_NAME_CHARS] or "session",
        "settings": {},
        "head": len(branches) - 1,
        "branches": branches,
        "damage": "",
    }


def diagnose_branches(branches: Sequence[tuple[int, int, list[Json]]], model: str) -> Diagnosis:
    """Return the diagnosis of a stored session.

    Each branch is the number of its parent (-1 for none), the position of its fork in the parent,
    and its own messages. A branch without a parent that begins with a summary continues the
    previous branch. Other branches without a parent, such as a subagent's, are separate histories.
    """
    histories: list[list[Json]] = []
    runs: list[Run] = []
    for number, (parent, fork, own_messages) in enumerate(branches):
        history = [*(histories[parent][:fork] if parent >= 0 else []), *own_messages]
        histories.append(history)
        is_next = parent < 0 and number > 0 and _begins_with_summary(own_messages)
        continues = runs[-1].id if is_next and runs else ""
        if parent < 0 or not fork:
            runs.append(Run(str(number), "", model, history, continues=continues))
        else:
            runs.append(Run(str(number), "", model, history))
    return diagnose(runs)


def _begins_with_summary(messages: Sequence[Json]) -> bool:
    """Return whether one of the first three messages has words of a summary. Ignore answers."""
    head = [message for message in messages[:3] if message["role"] != "assistant"]
    return any(
        _SUMMARY_WORDS.search(str(message.get("content") or "")[:SUMMARY_SEARCH_CHARS])
        for message in head
    )

"""Reads an uploaded file for the console: its sessions, their diagnoses, and the data to import."""

import re
import tempfile
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.command import homes, read_input
from contextrender_bridge.audit.files import read_files
from contextrender_bridge.audit.open_command import OpenedSession, sessions_of
from contextrender_bridge.audit.replay import run_of
from contextrender_bridge.audit.run_reader import RecordedRun
from contextrender_bridge.base.errors import CommandError, InvalidRequest
from contextrender_bridge.base.shipped import DATA
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.call.session_import import EXPORT_FORMAT
from contextrender_bridge.engine.call.settings import AGENT_SETTINGS
from contextrender_bridge.evaluation.diagnosis import Diagnosis, diagnose
from contextrender_bridge.evaluation.runs import Run

MAX_SESSIONS: Final = 50
"""The largest number of sessions that are read from one file. The newest ones are read."""
MAX_LOCAL_SESSIONS: Final = 10
"""The largest number of an agent's sessions on this machine that are read at once."""
MAX_CHARACTERS: Final = 30_000_000
"""No further session is read if those before it have more characters."""
DEMO: Final = "demo"
SHIPPED_RUN: Final = DATA / "demo.jsonl"
MAX_NAME_CHARS: Final = 200
_SUMMARY_WORDS: Final = re.compile(
    r"continued from a previous|\bsummary\b|\bsummari[sz]ed?\b|compact|another language model", re.I
)
SUMMARY_SEARCH_CHARS: Final = 2_000
"""The number of characters of a message in which a summary's words are searched."""


def read_uploaded(name: str, content: str) -> tuple[list[OpenedSession], list[str]]:
    """Return the sessions in a base64-encoded file, and sentences that name unreadable parts.

    Raise InvalidRequest if `content` is not base64 or the file has no session.
    """
    try:
        raw = b64decode(content, validate=True)
    except (NotBase64, ValueError):
        raise InvalidRequest("content must be base64") from None
    audit_input = AuditInput()
    with tempfile.TemporaryDirectory() as folder:
        safe_name = re.sub(r"[^\w.-]", "_", Path(name).name)[-MAX_NAME_CHARS:]
        path = Path(folder, safe_name or "file")
        path.write_bytes(raw)
        # The user must not see the temporary folder in a message.
        try:
            read_files(path, audit_input)
        except CommandError as error:
            raise InvalidRequest(str(error).replace(f"{folder}/", "")) from None
        audit_input.merge_copies()
    sentences = [sentence.replace(f"{folder}/", "") for sentence in audit_input.sentences]
    return _sessions_in(audit_input, f"in {name:.80}", sentences, MAX_SESSIONS), sentences


def local_agents() -> list[str]:
    """Return the agents that have a folder of sessions on this machine."""
    return [name for name, folders in homes().items() if any(map(Path.is_dir, folders))]


def read_local(agent: str) -> tuple[list[OpenedSession], list[str]]:
    """Return the newest sessions of an agent on this machine, and sentences on unreadable parts.

    For `DEMO`, return the shipped run. Raise InvalidRequest if there is no session.
    """
    audit_input = read_input([SHIPPED_RUN]) if agent == DEMO else read_input((), agent)
    sentences = audit_input.sentences
    return _sessions_in(audit_input, f"of {agent}", sentences, MAX_LOCAL_SESSIONS), sentences


def _sessions_in(
    audit_input: AuditInput, place: str, sentences: Sequence[str], limit: int
) -> list[OpenedSession]:
    """Return the newest sessions of an input, at most `limit` of them.

    No further session is returned once they have more than `MAX_CHARACTERS`. Raise InvalidRequest
    if there is none, with a message that has `place` and `sentences`.
    """
    sessions: list[OpenedSession] = []
    characters = 0
    for runs in sessions_of(audit_input.runs):
        if len(sessions) == limit or characters > MAX_CHARACTERS:
            break
        if any(run.messages and run_of(run) for run in runs):  # it has a valid history
            sessions.append(OpenedSession(runs))
            texts = (str(message.get("content")) for run in runs for message in run.messages)
            characters += sum(map(len, texts))
    if not sessions:
        raise InvalidRequest(" ".join([f"there are no sessions {place}", *sentences]))
    return sessions


def export_of(runs: Sequence[RecordedRun]) -> Json:
    """Return a session in the format that `import_session` reads. Each run is a branch of its own.

    Runs without valid messages are left out.
    """
    branches: list[Json] = []
    for recorded_run in runs:
        if recorded_run.messages and (run := run_of(recorded_run)):
            times = run.times or [0.0] * len(run.messages)
            # The branch has no parent, so it is a history of its own.
            place = {"number": len(branches), "parent": -1, "fork_position": 0}
            content = {"messages": run.messages, "timestamps": times, "calls": []}
            branches.append({**place, **content})
    return {
        "format": EXPORT_FORMAT,
        "session": runs[0].task[:MAX_NAME_CHARS] or "session",
        "settings": AGENT_SETTINGS.to_json(),
        "head": len(branches) - 1,
        "branches": branches,
        "damage": "",
    }


def diagnose_branches(branches: Sequence[tuple[int, int, list[Json]]], model: str) -> Diagnosis:
    """Return the diagnosis of a stored session, whose calls named `model`.

    A branch is given as the number of its parent (-1 for none), the position in the parent at which
    it forks, and its own messages. If a branch without a parent begins with a summary, it continues
    the previous branch after a compaction. Other branches without a parent, such as a subagent's,
    are separate histories.
    """
    runs: list[Run] = []
    for number, (parent, fork_position, own_messages) in enumerate(branches):
        has_parent = parent >= 0
        copied_messages = runs[parent].messages[:fork_position] if has_parent else []
        is_after_compaction = not has_parent and _begins_with_summary(own_messages)
        continues = runs[-1].id if runs and is_after_compaction else ""
        history = [*copied_messages, *own_messages]
        runs.append(Run(str(number), "", model, history, continues=continues))
    return diagnose(runs)


def _begins_with_summary(messages: Sequence[Json]) -> bool:
    """Return whether the messages seem to begin with a compaction's summary.

    One of the first three messages has words such as "continued from a previous". Answers do not
    count.
    """
    texts = [str(m.get("content") or "") for m in messages[:3] if m["role"] != "assistant"]
    return any(_SUMMARY_WORDS.search(text[:SUMMARY_SEARCH_CHARS]) for text in texts)

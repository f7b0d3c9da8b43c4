"""Who did what to accounts, tokens and whole sessions: a line of JSON each, in a file of its own.

    {"time": "2026-01-31T12:00:00+00:00", "event": "session_deleted", "user": "alice", ...}

It names users, addresses and sessions; it holds no contents, passwords or tokens. The file is
opened anew for every line, so it can be moved away at any time.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from contextrender_bridge.server.logs import log_failure

FILE = "audit.log"


class Audit:
    """The log of one data folder; several processes may write to it."""

    def __init__(self, data: Path) -> None:
        """Makes the file when there is something to say."""
        self._path = data / FILE

    def note(self, event: str, user: str, **more: object) -> None:
        """Adds a line. What was done stays done where that fails."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, "user": user, **more})
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, f"{line}\n".encode())
            finally:
                os.close(file)
        except OSError as failure:
            log_failure("audit", failure)

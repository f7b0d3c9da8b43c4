"""Logs that never hold contents, as text or JSON: `CONTEXTRENDER_LOG_FORMAT`.

Messages of exceptions and of other packages may quote what a client sent, so neither is written:
of an exception its type and frames, of another package's record where it was logged. Set
CONTEXTRENDER_DEBUG to see them whole.
"""

import json
import logging
import os
import traceback
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from contextrender_bridge.base.settings import current_settings

log = logging.getLogger("contextrender")

AUDIT_FILE: Final = "audit.log"
ABOUT_A_REQUEST: Final = ("route", "status", "ms")


@dataclass
class RequestInfo:
    """The request that is being answered, with its user and its policy once they are known."""

    id: str
    user: str = ""
    policy: str = ""


REQUEST: ContextVar[RequestInfo | None] = ContextVar("asked", default=None)


class ContentFreeFormatter(logging.Formatter):
    """One line per record, without contents.

    It has time, level, name and place, then the message and `name=value`, or it is a JSON object
    with the same names.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and below it a traceback if debugging allows to quote what was sent."""
        fields, more = fields_of(record), ""
        if record.exc_info and current_settings().debug:
            more = self.formatException(record.exc_info)
        if self._as_json:
            return json.dumps(fields | ({"traceback": more} if more else {}))
        first = [fields.pop(name) for name in ("time", "level", "logger", "at", "message")]
        failure = [fields.pop("failure")] if "failure" in fields else []
        line = " ".join([*first, *failure, *(f"{name}={value}" for name, value in fields.items())])
        return "\n".join(filter(None, (line, more)))


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a line, without anything that may quote contents."""
    is_ours = record.name == log.name or current_settings().debug
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    line: dict[str, Any] = {
        "time": when,
        "level": record.levelname,
        "logger": record.name,
        "at": f"{record.filename}:{record.lineno}",
        "message": record.getMessage() if is_ours else "(message withheld)",
    }
    if record.exc_info and record.exc_info[1]:
        line["failure"] = describe(record.exc_info[1])
    if (request := REQUEST.get()) is not None:
        line["request"] = request.id
        if request.user:
            line["user"] = request.user
    fields = {name: getattr(record, name) for name in ABOUT_A_REQUEST if hasattr(record, name)}
    return line | fields


def configure_logging() -> None:
    """Log to stderr without contents, from `CONTEXTRENDER_LOG_LEVEL` on."""
    settings = current_settings()
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    handler = logging.StreamHandler()
    handler.setFormatter(ContentFreeFormatter(as_json=settings.log_format == "json"))
    # Others' records say little here: only a debugger wants those below a warning.
    other_level = level if level == logging.DEBUG else max(level, logging.WARNING)
    logging.basicConfig(level=other_level, handlers=[handler], force=True)
    log.setLevel(level)


def log_failure(place: str, failure: BaseException) -> None:
    """Log an unexpected exception."""
    log.error("%s failed: %s", place, describe(failure), stacklevel=2)


def describe(failure: BaseException) -> str:
    """Return the exception's types and frames, outermost cause last."""
    frames = " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in reversed(traceback.extract_tb(failure.__traceback__))
    )
    text = f"{type(failure).__name__} at {frames or '?'}"
    cause = failure.__cause__ or failure.__context__
    return f"{text}, after {describe(cause)}" if cause else text


class Audit:
    """Who did what to accounts, tokens and whole sessions: a line of JSON each, in its own file.

        {"time": "2026-01-31T12:00:00+00:00", "event": "session_deleted", "user": "alice", ...}

    It names users, addresses and sessions; it holds no contents, passwords or tokens. The file is
    opened anew for every line, so it can be moved away at any time.
    """

    def __init__(self, data: Path) -> None:
        self._path = data / AUDIT_FILE

    def note(self, event: str, user: str, **more: object) -> None:
        """Add a line. If that fails, what was done stays done."""
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

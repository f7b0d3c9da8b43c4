"""Logs without contents of sessions, as text or JSON: `CONTEXTRENDER_LOG_FORMAT`.

Messages of exceptions and of other packages may quote contents, so they are not written. For an
exception, the log has types and frames. For a record of another package, it has the place where it
was logged. CONTEXTRENDER_DEBUG adds the messages.
"""

import json
import logging
import os
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from contextrender_bridge.asgi import REQUEST
from contextrender_bridge.base.settings import current_settings

log = logging.getLogger("contextrender")

AUDIT_FILE: Final = "audit.log"
REQUEST_FIELDS: Final = ("route", "status", "ms")


class ContentFreeFormatter(logging.Formatter):
    """A formatter that writes one line per record, without contents of sessions.

    A line has the time, level, logger and place, the message, and fields as `name=value`. With
    `as_json`, it is a JSON object with the same fields.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record. Debug mode adds the traceback, which may quote contents."""
        fields, trace = record_fields(record), ""
        if record.exc_info and current_settings().debug:
            trace = self.formatException(record.exc_info)
        if self._as_json:
            return json.dumps(fields | ({"traceback": trace} if trace else {}))
        names = ("time", "level", "logger", "at", "message", "failure")
        words = [fields.pop(name) for name in names if name in fields]
        line = " ".join([*words, *(f"{name}={value}" for name, value in fields.items())])
        return f"{line}\n{trace}" if trace else line


def record_fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a record's line, without texts that may quote contents of sessions.

    They include the id and the user of the current request. The messages of other packages may
    quote contents, so they are withheld unless debug mode is on.
    """
    has_safe_message = record.name == log.name or current_settings().debug
    time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    line: dict[str, Any] = {
        "time": time,
        "level": record.levelname,
        "logger": record.name,
        "at": f"{record.filename}:{record.lineno}",
        "message": record.getMessage() if has_safe_message else "(message withheld)",
    }
    # Describe an exception, and add what is known of the current request.
    if record.exc_info and record.exc_info[1]:
        line["failure"] = describe(record.exc_info[1])
    if (request := REQUEST.get()) is not None:
        line["request"] = request.id
        if request.user:
            line["user"] = request.user
    # The line of an answered request has further fields.
    fields = {name: getattr(record, name) for name in REQUEST_FIELDS if hasattr(record, name)}
    return line | fields


def configure_logging() -> None:
    """Set up logging to stderr, without contents, from the level `CONTEXTRENDER_LOG_LEVEL` on."""
    settings = current_settings()
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    handler = logging.StreamHandler()
    handler.setFormatter(ContentFreeFormatter(as_json=settings.log_format == "json"))
    # Records of other packages are logged without their message. Below a warning, such a record is
    # useful only for debugging.
    other_level = level if level == logging.DEBUG else max(level, logging.WARNING)
    logging.basicConfig(level=other_level, handlers=[handler], force=True)
    log.setLevel(level)


def log_failure(place: str, failure: BaseException) -> None:
    """Log an exception, without its message, that ended the work at `place`."""
    log.error("%s failed: %s", place, describe(failure), stacklevel=2)


def describe(failure: BaseException) -> str:
    """Return a text with the types and frames of an exception and its causes, root cause last.

    The innermost frame of each exception comes first. Messages are omitted.
    """
    frames = " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in reversed(traceback.extract_tb(failure.__traceback__))
    )
    text = f"{type(failure).__name__} at {frames or '?'}"
    cause = failure.__cause__ or failure.__context__
    return f"{text}, after {describe(cause)}" if cause else text


class AuditLog:
    """A file with a line of JSON for each change of accounts, tokens and whole sessions.

        {"time": "2026-01-31T12:00:00+00:00", "event": "session_deleted", "user": "alice", ...}

    It has names of users and sessions and addresses, but no contents, passwords or tokens. The file
    is opened for every line, so an operator can move it at any time.
    """

    def __init__(self, data: Path) -> None:
        self._path = data / AUDIT_FILE

    def record(self, event: str, user: str, **fields: object) -> None:
        """Add a line. If that fails, only log the failure, because the change is already made."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, "user": user, **fields})
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, f"{line}\n".encode())
            finally:
                os.close(file)
        except OSError as failure:
            log_failure("audit", failure)

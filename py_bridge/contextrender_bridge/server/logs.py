"""Logs that never hold contents.

Messages of exceptions and of other packages may quote what a client sent, so neither is written:
of an exception its type and frames, of another package's record where it was logged. Set
CONTEXTRENDER_DEBUG to see them whole.
"""

import logging
import traceback
from pathlib import Path

from contextrender_bridge.settings import current_settings

log = logging.getLogger("contextrender")


class ContentFreeFormatter(logging.Formatter):
    """One line a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Withhold what may quote contents."""
        if current_settings().debug:
            return super().format(record)
        text = record.getMessage() if record.name == log.name else "(message withheld)"
        line = f"{record.levelname} {record.name} {record.filename}:{record.lineno} {text}"
        if record.exc_info and record.exc_info[1]:
            line += f" {describe(record.exc_info[1])}"
        return line


def configure_logging() -> None:
    """Warnings and worse to stderr, content-free."""
    handler = logging.StreamHandler()
    handler.setFormatter(ContentFreeFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def log_failure(where: str, failure: BaseException) -> None:
    """Log an unexpected exception."""
    log.error("%s failed: %s", where, describe(failure), stacklevel=2)


def describe(failure: BaseException) -> str:
    """The exception's types and frames, outermost cause last."""
    frames = " < ".join(
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in reversed(traceback.extract_tb(failure.__traceback__))
    )
    text = f"{type(failure).__name__} at {frames or '?'}"
    cause = failure.__cause__ or failure.__context__
    return f"{text}, after {describe(cause)}" if cause else text

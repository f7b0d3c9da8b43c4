"""Writes warnings to a file while the agent uses the terminal."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

LOG_BYTES = 2**20


class WarningsLog(RotatingFileHandler):
    """A log file that counts its records as `warnings`. When it is full, a new one is begun."""

    def __init__(self, path: Path) -> None:
        """Open the log file at `path`. One full file is kept beside it."""
        super().__init__(path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
        self.warnings = 0
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))

    def _open(self) -> TextIOWrapper:
        """Open the log file so that only its owner can read it. The base class calls this."""
        file = super()._open()
        os.fchmod(file.fileno(), 0o600)
        return file

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record to the file, and count it."""
        self.warnings += 1
        super().emit(record)


@contextmanager
def warnings_in_file(path: Path) -> Iterator[WarningsLog]:
    """Write warnings and errors to a file while the block runs, and nothing to the terminal.

    The agent uses the terminal, so a warning would be printed over its screen.
    """
    root, log = logging.getLogger(), WarningsLog(path)
    previous_handlers = root.handlers
    root.handlers = [log]
    log.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    try:
        yield log
    finally:
        logging.captureWarnings(False)
        root.handlers = previous_handlers
        log.close()

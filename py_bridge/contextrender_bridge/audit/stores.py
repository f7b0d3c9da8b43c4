"""Other programs' SQLite stores, opened for reading alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from contextrender_bridge.audit.recorded import Found


@contextmanager
def store_at(path: Path, found: Found) -> Iterator[sqlite3.Connection]:
    """The store; one that cannot be read, or not to its end, is counted."""
    found.counts["files"] += 1
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as store:
            yield store
    except sqlite3.Error:
        found.counts["unreadable files"] += 1

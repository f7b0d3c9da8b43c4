"""Another process over a data folder: to kill, to restart, or to share it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.server.servers import DATABASE, Server, running
from tests.support.command import PROCESS

IMPATIENT = "from graph.store import sqlite; sqlite.LOCK_TIMEOUT_SECONDS = 0.1; "


@contextmanager
def another(
    data: Path, environment: Mapping[str, str] = {}, *, patient: bool = True
) -> Iterator[Server]:
    """A server over `data`. Unless it is patient it waits for the store a tenth of a second."""
    *python, code = PROCESS
    known: dict[str, Any] = {key: one for key, one in os.environ.items() if key == DATABASE}
    known |= environment
    if not patient:
        code = IMPATIENT + code
        known["CONTEXTRENDER_DATABASE_LOCK_TIMEOUT"] = "0.1"
    command = [*python, code, "serve", "--port", "0", "--data", str(data)]
    with running(command, data, **known) as server:
        yield server

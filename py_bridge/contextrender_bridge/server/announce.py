"""The file by which clients find the service: of several servers on one folder, the first's.

A second server leaves the file alone while the one it names answers, so that nobody's clients go
over to it; when that one has stopped, the second's address is written.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contextrender_bridge.client.credentials import FILE_NAME, Credentials
from contextrender_bridge.server_state import answers

LOOK_SECONDS = 2.0


@contextmanager
def announced(url: str, token: str, data: Path) -> Iterator[None]:
    """While the block runs, `data` names a server that answers: this one unless another does."""
    own = Credentials(url, token)
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(own, data, ended), daemon=True)
    if _claim(own, data):
        yield
        return
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(own: Credentials, data: Path, ended: threading.Event) -> None:
    while not ended.wait(LOOK_SECONDS):
        if _claim(own, data):
            return


def _claim(own: Credentials, data: Path) -> bool:
    """Writes the file, unless it names another server that answers."""
    named = _named(data)
    if named not in ("", own.url) and answers(named):
        return False
    own.save(data)
    return True


def _named(data: Path) -> str:
    try:
        return str(json.loads((data / FILE_NAME).read_text(encoding="utf-8"))["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""

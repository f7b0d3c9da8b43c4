"""The file by which clients find the service: of several servers on one folder, the first's.

A second server leaves the file alone while the one it names answers, so that nobody's clients go
over to it; when that one has stopped, the second's address is written.

The first also keeps the file's token valid: once half its time is over, or it was revoked, the
file has another, which clients read when theirs is refused.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from contextrender_bridge.base.errors import ContextRenderError, NotReady
from contextrender_bridge.client.credentials import FILE_NAME, Credentials
from contextrender_bridge.local_service import answers
from contextrender_bridge.server.logs import log_failure

LOOK_SECONDS = 2.0


@contextmanager
def announced(url: str, token_for: Callable[[str], str], data: Path) -> Iterator[None]:
    """While the block runs, `data` names a server that answers: this one unless another does.

    `token_for` is given the file's token, and gives it back or a new one.
    """
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(url, token_for, data, ended), daemon=True)
    _try_to_claim(url, token_for, data)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(url: str, token_for: Callable[[str], str], data: Path, ended: threading.Event) -> None:
    while not ended.wait(LOOK_SECONDS):
        _try_to_claim(url, token_for, data)


def _try_to_claim(url: str, token_for: Callable[[str], str], data: Path) -> None:
    try:
        _claim(url, token_for, data)
    except NotReady:
        pass  # the server says so itself, and why
    except (ContextRenderError, OSError) as failure:  # the next look may do
        log_failure("announcing", failure)


def _claim(url: str, token_for: Callable[[str], str], data: Path) -> None:
    """Writes the file where anything in it is new, unless it names another server that answers."""
    known = _known(data)
    if known.url not in ("", url) and answers(known.url):
        return
    wanted = Credentials(url, token_for(known.token))
    if wanted != known:
        wanted.save(data)


def _known(data: Path) -> Credentials:
    try:
        found = json.loads((data / FILE_NAME).read_text(encoding="utf-8"))
        return Credentials(str(found["url"]), str(found["token"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Credentials("", "")

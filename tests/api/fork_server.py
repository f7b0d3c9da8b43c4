"""Starts servers fast: loads the app once, then forks a server process for every line on stdin.

A line is JSON: the data folder, files for stdout and stderr, environment variables, the working
set's limit in bytes and how long to wait for the store (null: as usual). The answer is the server's
process id.
"""

import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import bcrypt  # noqa: E402
from contextrender_bridge.base import settings  # noqa: E402
from contextrender_bridge.base.paths import app_dir  # noqa: E402
from contextrender_bridge.server.process.start import serve  # noqa: E402
from contextrender_bridge.server.runtime import load_app  # noqa: E402


def preload() -> None:
    """What every server would load by itself at its first requests."""
    for module in ("lifespan.on", "loops.auto", "protocols.http.auto", "protocols.websockets.auto"):
        importlib.import_module(f"uvicorn.{module}")
    importlib.import_module("contextrender_bridge.server.app")
    load_app(app_dir())
    from engine.models.embeddings import load_embedder
    from engine.text.tokens import counter_for

    salt = bcrypt.gensalt
    bcrypt.gensalt = lambda *_: salt(4)  # nobody logs in here
    counter_for(None)
    load_embedder("wordllama").embed(["x"])


def run(order: dict[str, Any]) -> int:
    """Be that server until it is stopped."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for descriptor, path in enumerate((os.devnull, order["out"], order["err"])):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(path, flags, 0o600), descriptor)
    os.environ.update(order["environment"])
    settings._read_once.cache_clear()  # loading the app has read them
    from graph.sessions.caches import WORKING_SET
    from graph.store import sqlite

    if order["working_set"] is not None:
        WORKING_SET.limit = order["working_set"]
    if order["store_patience"] is not None:
        sqlite.LOCK_TIMEOUT_SECONDS = order["store_patience"]
        os.environ["CONTEXTRENDER_DATABASE_LOCK_TIMEOUT"] = str(order["store_patience"])
    return serve("127.0.0.1", 0, Path(order["data"]))


def main() -> None:
    """Fork until stdin ends. Children that end are reaped by the system."""
    preload()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os._exit(run(json.loads(line)))
        print(child, flush=True)
    os._exit(0)  # whatever threads the app's modules have begun


if __name__ == "__main__":
    main()

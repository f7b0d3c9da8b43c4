"""The process behind `embedded()`: a server whose address and token its starter alone learns.

It writes them to its output, as a line of JSON, and serves until its input ends.
"""

import json
import os
import sys
import threading
from pathlib import Path
from socket import socket

import uvicorn
from contextrender_bridge.base.errors import CommandError, ContextRenderError
from contextrender_bridge.base.paths import make_app_importable
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.listening import address, http_config, listen
from contextrender_bridge.local_service import telling_why_it_is_slow
from contextrender_bridge.request_guards import guarded

TOKEN_DAYS = 3650
"""The token is in two processes' memory only, and nothing renews it."""


def main(data: str) -> int:
    """Serve the store in `data` to the process that started this one."""
    os.umask(0o077)
    make_app_importable()
    # What libraries print goes to stderr, so that the starter reads one line alone.
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        server, listener, started = _start(Path(data))
    except (CommandError, ContextRenderError) as error:
        _write(output, {"error": str(error)})
        return 1
    threading.Thread(target=_stop_at_end, args=(server,), daemon=True).start()
    _write(output, started)
    server.run(sockets=[listener])
    return 0


def _start(data: Path) -> tuple[uvicorn.Server, socket, dict[str, str]]:
    from contextrender_bridge.server.process.loading import warm_up
    from contextrender_bridge.server.watching.logs import configure_logging

    configure_logging()
    with telling_why_it_is_slow():
        from contextrender_bridge.server.app import build_app

        app = build_app(data)
        warm_up()
    settings = current_settings()
    guard = guarded(settings.max_connections, settings.header_timeout)
    listener = listen("127.0.0.1", 0)
    token = app.state.service.accounts.local_token(days=TOKEN_DAYS)
    server = uvicorn.Server(http_config(app, http=guard))
    return server, listener, {"url": address(listener), "token": token}


def _write(output: int, line: dict[str, str]) -> None:
    with os.fdopen(output, "w") as file:
        print(json.dumps(line), file=file)


def _stop_at_end(server: uvicorn.Server) -> None:
    sys.stdin.buffer.read()
    server.should_exit = True

"""The process behind `embedded()`: a server for the process that starts it.

It writes its address and token to standard output as a line of JSON, and serves until its standard
input ends.
"""

import json
import os
import sys
import threading
from pathlib import Path
from socket import socket

import uvicorn
from contextrender_bridge.background import report_slow_start
from contextrender_bridge.base.errors import CommandError, ContextRenderError
from contextrender_bridge.base.paths import make_app_importable
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.listening import address, http_config, listen
from contextrender_bridge.request_guards import guarded_protocol

TOKEN_DAYS = 3650
"""The lifetime of the token. It exists only in the memory of two processes, and is not renewed."""


def main(data: str) -> int:
    """Serve the store in the folder `data` to the process that started this one.

    Write the address and the token, or an error, as a line of JSON. Return the exit code.
    """
    os.umask(0o077)
    make_app_importable()
    # Send the prints of libraries to stderr, so that the starter reads only our line.
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        server, listener, credentials = _start(Path(data))
    except (CommandError, ContextRenderError) as error:
        _write(output, {"error": str(error)})
        return 1
    threading.Thread(target=_stop_at_end_of_input, args=(server,), daemon=True).start()
    _write(output, credentials)
    server.run(sockets=[listener])
    return 0


def _start(data: Path) -> tuple[uvicorn.Server, socket, dict[str, str]]:
    """Load the app. Return the server, its listening socket, and its `url` and `token`."""
    from contextrender_bridge.server.process.loading import warm_up
    from contextrender_bridge.server.watching.logs import configure_logging

    configure_logging()
    with report_slow_start():
        from contextrender_bridge.server.app import build_app

        app = build_app(data)
        warm_up()
    # Listen on any free port, only for this machine.
    settings = current_settings()
    protocol = guarded_protocol(settings.max_connections, settings.header_timeout)
    listener = listen("127.0.0.1", 0)
    token = app.state.service.accounts.local_token(days=TOKEN_DAYS)
    server = uvicorn.Server(http_config(app, http=protocol))
    return server, listener, {"url": address(listener), "token": token}


def _write(output: int, fields: dict[str, str]) -> None:
    """Write a line of JSON to the file descriptor `output`, and close it."""
    with os.fdopen(output, "w") as file:
        print(json.dumps(fields), file=file)


def _stop_at_end_of_input(server: uvicorn.Server) -> None:
    """Wait until standard input ends, because the starter closed it or exited. Stop the server."""
    sys.stdin.buffer.read()
    server.should_exit = True

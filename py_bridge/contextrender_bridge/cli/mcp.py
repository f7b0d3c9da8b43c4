"""Serve recall, explain and sessions to MCP clients: over stdio, or over HTTP with --http."""

import argparse
import asyncio

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_install
from contextrender_bridge.listening import address, http_config, listen


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender mcp`."""
    parser.add_argument(
        "--http", action="store_true", help="serve at http://HOST:PORT/mcp instead of stdio"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=8710, help="port to listen on (%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Serve until the client disconnects, or until the process is interrupted.

    Serve over stdio, or with `--http` over HTTP. Raise CommandError if the extra `mcp` is not
    installed.
    """
    try:
        from contextrender_bridge.mcp_server import build_mcp
    except ImportError:
        raise CommandError(
            f"`contextrender mcp` needs the extra `mcp`. Install it with {how_to_install('mcp')}."
        ) from None

    if args.http:
        _serve_http(args.host, args.port)
        return 0

    from contextrender_bridge.client import AsyncContextRender

    # The client finds the service at each call: an agent may start both at the same time.
    asyncio.run(build_mcp(AsyncContextRender()).run_stdio_async())
    return 0


def _serve_http(host: str, port: int) -> None:
    """Serve over HTTP until the process is interrupted. Requests must have this user's token."""
    import uvicorn

    from contextrender_bridge.client import AsyncContextRender
    from contextrender_bridge.client.credentials import resolve_credentials
    from contextrender_bridge.mcp_server import build_mcp, require_token
    from contextrender_bridge.request_guards import Guard

    url = resolve_credentials(None, None).url
    server = build_mcp(AsyncContextRender(url))
    app = server.streamable_http_app(stateless_http=True, json_response=True, host=host)
    listener = listen(host, port)
    print(f"MCP is served at {address(listener)}/mcp; it requires this user's token", flush=True)
    # The token is read again for each request, because it may change while this runs.
    protected = require_token(app, lambda: resolve_credentials(url, None).token)
    uvicorn.Server(http_config(Guard(protected))).run(sockets=[listener])

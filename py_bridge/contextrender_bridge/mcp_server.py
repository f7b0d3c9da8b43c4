"""MCP servers over the service: they recall tool results, and explain why results are shown.

It needs the `[mcp]` extra.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from contextrender_bridge.asgi import App, Scope, send_error
from contextrender_bridge.base.errors import ContextRenderError, Unauthorized
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import AsyncContextRender

INSTRUCTIONS = (
    "ContextRender records agent sessions. `sessions` lists them, `recall` gives back complete "
    "tool results of one, `explain` says why each result is in view or not before a model call."
)
RECALL_INSTRUCTIONS = (
    "Earlier tool results of this session may be missing from your view, or shortened, to keep it "
    "small; `recall` gives them back complete."
)
READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)
SessionName = Annotated[str, Field(description="The session's name.")]


def build_mcp(client: AsyncContextRender) -> MCPServer:
    """Return an MCP server with the tools `recall`, `explain` and `sessions`, over a client."""
    server = MCPServer("contextrender", instructions=INSTRUCTIONS, log_level="WARNING")

    @server.tool(annotations=READ_ONLY)
    async def recall(
        session: SessionName,
        query: Annotated[str | None, Field(description="Words or values to look for.")] = None,
        results: Annotated[list[int] | None, Field(description="Positions of results.")] = None,
        limit: Annotated[int, Field(ge=1, le=50)] = 5,
    ) -> Json:
        """Complete results of earlier tool calls, by `query` or by position (`results`)."""
        max_results = limit if query else None  # Positions name the results themselves.
        return await reply_of(
            client.recall(session, query=query, results=results, limit=max_results)
        )

    @server.tool(annotations=READ_ONLY)
    async def explain(
        session: SessionName,
        turn: Annotated[int | None, Field(description="A model call, or the next one.")] = None,
        budget: Annotated[int | None, Field(ge=1, description="Another budget to try.")] = None,
        policy: Annotated[str | None, Field(description="Another policy to try.")] = None,
    ) -> Json:
        """Explain why each tool result is shown or not before a model call, and what used it."""
        return await reply_of(client.explain(session, turn=turn, budget=budget, policy=policy))

    @server.tool(annotations=READ_ONLY)
    async def sessions(
        limit: Annotated[int, Field(ge=1, le=100)] = 20,
        cursor: Annotated[str | None, Field(description="`next` of the page before.")] = None,
    ) -> Json:
        """List the recorded sessions, newest first, a page at a time."""
        return await reply_of(client.list_sessions(limit=limit, cursor=cursor))

    return server


def recall_app(client: AsyncContextRender, session: Callable[[], str]) -> Any:
    """Return an ASGI app with only the tool `recall`, at `/mcp`, for a wrapped agent.

    `session` returns the agent's session, empty before its first model call.
    """
    server = MCPServer("contextrender", instructions=RECALL_INSTRUCTIONS, log_level="WARNING")

    @server.tool(annotations=READ_ONLY)
    async def recall(
        query: Annotated[str | None, Field(description="Words or values to look for.")] = None,
        results: Annotated[
            list[int] | None, Field(description="Numbers of results, as excerpts name them.")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=20)] = 5,
    ) -> Json:
        """Complete results of this session's earlier tool calls, by `query` or by number."""
        # Before the first model call, there is no session and nothing to recall.
        name = session()
        if not name:
            raise ToolError("Nothing has left this session's view.")
        if results:
            return await reply_of(client.recall(name, results=results))
        # The limit is only for a query. If there is none, the service's error asks for a query or
        # numbers.
        max_results = limit if query else None
        return await reply_of(client.recall(name, query=query or "", limit=max_results))

    return server.streamable_http_app(stateless_http=True, json_response=True, host="127.0.0.1")


def require_token(app: App, token: Callable[[], str]) -> App:
    """Return an ASGI app that answers 401 to requests without the current token."""

    async def check_token(scope: Scope, receive: Any, send: Any) -> None:
        """Pass on a request with the token; answer 401 to another one."""
        authorization = dict(scope.get("headers", ())).get(b"authorization", b"")
        expected = b"Bearer " + token().encode()
        is_http = scope["type"] == "http"  # Otherwise the server starts or stops the app.
        if is_http and not secrets.compare_digest(authorization, expected):
            await send_error(send, Unauthorized("Send the token of this run."))
            return
        await app(scope, receive, send)

    return check_token


async def reply_of(call: Awaitable[Mapping[str, Any]]) -> Json:
    """Return the reply of a client's call. Raise ToolError for the model if the call fails."""
    try:
        return dict(await call)
    except ContextRenderError as error:
        raise ToolError(f"{error.message} ({error.code})") from None

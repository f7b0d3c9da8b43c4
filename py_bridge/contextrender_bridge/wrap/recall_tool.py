"""The recall tool of a wrapped agent: over MCP, for the session it is in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.async_client import AsyncContextRender
from contextrender_bridge.mcp_server import READS, told

ABOUT = (
    "Earlier tool results of this session may be missing from your view, or shortened, to keep it "
    "small; `recall` gives them back complete."
)


def recall_app(client: AsyncContextRender, session: Callable[[], str]) -> Any:
    """An ASGI app with the tool at `/mcp`; `session` says which session its caller is in."""
    server = MCPServer("contextrender", instructions=ABOUT, log_level="WARNING")

    @server.tool(annotations=READS)
    async def recall(
        query: Annotated[str | None, Field(description="Words or values to look for.")] = None,
        results: Annotated[
            list[int] | None, Field(description="Numbers of results, as excerpts name them.")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=20)] = 5,
    ) -> Json:
        """Complete results of this session's earlier tool calls, by `query` or by number."""
        if not session():
            raise ToolError("Nothing has left this session's view.")
        wanted = limit if query and not results else None
        words = None if results else query or ""
        return await told(client.recall(session(), query=words, results=results, limit=wanted))

    return server.streamable_http_app(stateless_http=True, json_response=True, host="127.0.0.1")

"""ContextRender for Python: the client, the server and their command line."""

from contextrender_bridge.client import AsyncContextRender, ContextRender
from contextrender_bridge.client.credentials import Credentials, load_credentials
from contextrender_bridge.client.fitting import Fitted
from contextrender_bridge.embedded import embedded, embedded_async
from contextrender_bridge.errors import ContextRenderError, NoCredentials

__all__ = [
    "AsyncContextRender",
    "ContextRender",
    "ContextRenderError",
    "Credentials",
    "Fitted",
    "NoCredentials",
    "embedded",
    "embedded_async",
    "load_credentials",
]

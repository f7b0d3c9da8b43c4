"""ContextRender for Python: the client, the server and their command line."""

from contextrender_bridge.async_client import AsyncContextRender
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client_errors import ContextRenderError
from contextrender_bridge.credentials import Credentials, NoCredentials, load_credentials
from contextrender_bridge.embedded import embedded, embedded_async
from contextrender_bridge.fitting import Fitted

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

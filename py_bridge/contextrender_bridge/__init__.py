"""ContextRender for Python: the client, the server and their command line.

Names are imported when they are first used: a client waits for no other's libraries.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextrender_bridge.base.errors import ContextRenderError, NoCredentials
    from contextrender_bridge.client import AsyncContextRender, ContextRender
    from contextrender_bridge.client.credentials import Credentials, load_credentials
    from contextrender_bridge.client.fitting import RenderedRequest
    from contextrender_bridge.private_service import embedded, embedded_async

__all__ = [
    "AsyncContextRender",
    "ContextRender",
    "ContextRenderError",
    "Credentials",
    "NoCredentials",
    "RenderedRequest",
    "embedded",
    "embedded_async",
    "load_credentials",
]

_MODULES = {
    "AsyncContextRender": "client.async_client",
    "ContextRender": "client.sync_client",
    "ContextRenderError": "base.errors",
    "Credentials": "client.credentials",
    "RenderedRequest": "client.fitting",
    "NoCredentials": "base.errors",
    "embedded": "private_service",
    "embedded_async": "private_service",
    "load_credentials": "client.credentials",
}


def __getattr__(name: str) -> Any:
    """Return a name of `__all__`, from the module that has it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    value = globals()[name] = getattr(module, name)
    return value

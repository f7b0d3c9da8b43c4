"""The Python clients: a core without I/O, with a synchronous and an asynchronous driver."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextrender_bridge.client.async_client import AsyncContextRender
    from contextrender_bridge.client.sync_client import ContextRender

__all__ = ["AsyncContextRender", "ContextRender"]

_MODULES = {"AsyncContextRender": "async_client", "ContextRender": "sync_client"}


def __getattr__(name: str) -> Any:
    """Import a client when it is first used: the synchronous client needs no event loop."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)

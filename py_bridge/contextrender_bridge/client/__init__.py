"""The Python clients: one core that sends nothing by itself, a synchronous and an async driver."""

from contextrender_bridge.client.async_client import AsyncContextRender
from contextrender_bridge.client.sync_client import ContextRender

__all__ = ["AsyncContextRender", "ContextRender"]

"""The plugin as Hermes finds it in its `plugins` folder."""

from contextrender_bridge.adapters.hermes import register

__all__ = ["register"]

"""ACON: a memory manager that shows the model what fits a budget of the conversation.

    from productive_agents.agents import unified_agent

    install(unified_agent, budget=6000)     # before an agent is made

What the memory manager keeps stays whole. Every agent's run is a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any
from uuid import uuid4

from contextrender_bridge.adapters.planning import Planner, fitted_texts
from contextrender_bridge.base.wire import Json


class ContextRenderMemory:
    """A mixin for `MemoryManager`."""

    contextrender: Mapping[str, Any] = {}
    """What `Planner` takes."""

    def get_conversation_history(self, exclude_system: bool = True) -> list[Json]:
        """The messages for the next model call."""
        kept: Any = super()
        # Recorded with the system's message either way, so that it is one history.
        whole = kept.get_conversation_history(exclude_system=False)
        left = fitted_texts(self._planner, whole, session=self._session)
        if left is whole:
            return kept.get_conversation_history(exclude_system=exclude_system)
        start = 1 if exclude_system and left[0].get("role") == "system" else 0
        return list(left[start:])

    @cached_property
    def _planner(self) -> Planner:
        return Planner(**self.contextrender)

    @cached_property
    def _session(self) -> str:
        return f"acon-{uuid4().hex[:12]}"


def install(unified_agent: Any, **settings: Any) -> None:
    """Makes agents of that module use it, with what `Planner` takes; before they are made."""
    base = unified_agent.MemoryManager
    bases = (base,) if issubclass(base, ContextRenderMemory) else (ContextRenderMemory, base)
    members = {"contextrender": settings}
    unified_agent.MemoryManager = type("ContextRenderMemoryManager", bases, members)

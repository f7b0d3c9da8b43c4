"""ACON: a memory manager that renders the conversation within a budget.

    from productive_agents.agents import unified_agent

    install(unified_agent, budget=6000)     # before an agent is made

The memory manager keeps every message. Each run of an agent is a session.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any
from uuid import uuid4

from contextrender_bridge.adapters.planning import Planner, fit_texts
from contextrender_bridge.base.wire import Json


class ContextRenderMemory:
    """A mixin for `MemoryManager` that renders the conversation for each model call."""

    contextrender: Mapping[str, Any] = {}
    """Settings of `Planner`."""

    def get_conversation_history(self, exclude_system: bool = True) -> list[Json]:
        """Return the rendered messages for the next model call.

        Leave out the system message if `exclude_system` is true.
        """
        memory: Any = super()
        # Always record the system message, so that the session has one history.
        history = memory.get_conversation_history(exclude_system=False)
        prompt = fit_texts(self._planner, history, session=self._session)
        if prompt is history:
            return memory.get_conversation_history(exclude_system=exclude_system)
        start = 1 if exclude_system and prompt[0].get("role") == "system" else 0
        return list(prompt[start:])

    @cached_property
    def _planner(self) -> Planner:
        return Planner(**self.contextrender)

    @cached_property
    def _session(self) -> str:
        return f"acon-{uuid4().hex[:12]}"


def install(unified_agent: Any, **settings: Any) -> None:
    """Replace the module's memory manager by a subclass that renders, with `Planner` settings.

    Agents that the module creates later use the subclass. A second call changes the settings.
    """
    base = unified_agent.MemoryManager
    bases = (base,) if issubclass(base, ContextRenderMemory) else (ContextRenderMemory, base)
    members = {"contextrender": settings}
    unified_agent.MemoryManager = type("ContextRenderMemoryManager", bases, members)

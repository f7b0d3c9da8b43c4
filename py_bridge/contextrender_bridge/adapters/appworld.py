"""AppWorld: a mixin for the ReAct agents of its experiments, and of ACE's.

    class FittedAgent(ContextRenderMixin, SimplifiedReActCodeAgent):
        contextrender = {"budget": 6000}

The agent's `messages` keep every message. The session's name is the experiment's name and the
task's id.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from contextrender_bridge.adapters.planning import Planner, fit_texts
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import ContextRender


class ContextRenderMixin:
    """A mixin that renders the history, instead of the agent's own trimming."""

    contextrender: Mapping[str, Any] = {}
    """Settings of `Planner`."""

    messages: list[Json]
    num_instruction_messages: int
    world: Any

    @property
    def trimmed_messages(self) -> list[Json]:
        """The rendered messages for the next model call, as copies that the caller may change."""
        # The last instruction is the task itself, which is the user's turn.
        count = max(self.num_instruction_messages - 1, 0)
        session = f"{self.world.experiment_name}/{self.world.task_id}"
        prompt = fit_texts(self._planner, self.messages, instruction_count=count, session=session)
        return copy.deepcopy(list(prompt))

    @cached_property
    def _planner(self) -> Planner:
        settings = dict(self.contextrender)
        # AppWorld stops the clock that measures the deadline, so retries could exceed it: try once.
        client = settings.pop("client", None) or ContextRender(retries=0)
        return Planner(client, **settings)

"""AppWorld: a mixin for the ReAct agents of its experiments, and of ACE's.

    class FittedAgent(ContextRenderMixin, SimplifiedReActCodeAgent):
        contextrender = {"budget": 6000}

The agent's `messages` stay whole. The session is the experiment's name and the task's id.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from contextrender_bridge.adapters.planning import Planner, fitted_texts
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import ContextRender


class ContextRenderMixin:
    """Shows the model what the service chooses of the history, instead of the agent's trimming."""

    contextrender: Mapping[str, Any] = {}
    """What `Planner` takes."""

    messages: list[Json]
    num_instruction_messages: int
    world: Any

    @property
    def trimmed_messages(self) -> list[Json]:
        """The messages for the next model call, which may change them."""
        # The last of the instructions is the task itself: the user's turn.
        instructions = max(self.num_instruction_messages - 1, 0)
        session = f"{self.world.experiment_name}/{self.world.task_id}"
        left = fitted_texts(
            self._planner, self.messages, instructions=instructions, session=session
        )
        return copy.deepcopy(list(left))

    @cached_property
    def _planner(self) -> Planner:
        settings = dict(self.contextrender)
        # AppWorld stops the clock that the deadline is told by: it only holds for a single try.
        client = settings.pop("client", None) or ContextRender(retries=0)
        return Planner(client, **settings)

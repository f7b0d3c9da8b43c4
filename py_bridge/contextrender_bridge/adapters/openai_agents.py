"""OpenAI Agents SDK: a filter that fits each model call's input into a budget.

    fit = ContextRenderFilter(budget=6000)
    config = RunConfig(call_model_input_filter=fit.for_session(session))
    Runner.run_sync(agent, "...", session=session, run_config=config)

The SDK's own session keeps every item.
"""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Session
from agents.run import CallModelData, CallModelInputFilter, ModelInputData

from contextrender_bridge.adapters.planning import Planner
from contextrender_bridge.base.wire import Json


class ContextRenderFilter:
    """A filter that renders each model call's input, with the settings of `Planner`."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._planner = Planner(*args, **settings)

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the input to send. The session's name is made from the first messages."""
        return await self._rendered_input(data, None)

    def for_session(self, session: Session | str) -> CallModelInputFilter:
        """Return a filter that records in one session, which is given as the SDK's or by its name.

        The SDK does not pass its session to a filter, so it must be named here.
        """

        async def render(data: CallModelData[Any]) -> ModelInputData:
            # Read the session's id only now, because a remote store sets it late.
            name = session if isinstance(session, str) else session.session_id
            return await self._rendered_input(data, name)

        return render

    async def _rendered_input(
        self, data: CallModelData[Any], session: str | None
    ) -> ModelInputData:
        """Return the input with the rendered items, and the instructions unchanged."""
        model_data = data.model_data
        # Do not record the instructions: agents that hand over to each other share one history, but
        # each has its own instructions.
        body: Json = {"input": model_data.input}
        fit = await asyncio.to_thread(self._planner.fit, body, session=session, dialect="responses")
        return ModelInputData(input=fit.body["input"], instructions=model_data.instructions)

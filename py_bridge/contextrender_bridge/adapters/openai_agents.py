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
    """Sends the model what the service chooses of the input. Takes what `Planner` takes."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._planner = Planner(*args, **settings)

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """The input to send; how the history begins names the session."""
        return await self._left(data, None)

    def for_session(self, session: Session | str) -> CallModelInputFilter:
        """This filter for one session, the SDK's or a name: the SDK tells a filter of none."""

        async def left(data: CallModelData[Any]) -> ModelInputData:
            # Not before: a session that is stored elsewhere gets its id there.
            name = session if isinstance(session, str) else session.session_id
            return await self._left(data, name)

        return left

    async def _left(self, data: CallModelData[Any], session: str | None) -> ModelInputData:
        asked = data.model_data
        # Without instructions: agents that hand over to each other have one history.
        body: Json = {"input": asked.input}
        fit = await asyncio.to_thread(self._planner.fit, body, session=session, dialect="responses")
        return ModelInputData(input=fit.body["input"], instructions=asked.instructions)

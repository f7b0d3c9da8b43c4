"""mini-swe-agent: agents that fit each model call's history into a budget.

    mini -c mini.yaml -c contextrender.yaml     # agent_class: ...ContextRenderInteractiveAgent

The agent's own messages and its trajectory file keep every message. Each run is a session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from minisweagent.agents.default import DefaultAgent
from minisweagent.agents.interactive import InteractiveAgent

from contextrender_bridge.adapters.planning import Planner
from contextrender_bridge.base.wire import Json


class ContextRenderAgent(DefaultAgent):
    """A `DefaultAgent` that renders the history of each model call."""

    messages: list[Json]

    def __init__(
        self, *args: Any, contextrender: Mapping[str, Any] | None = None, **settings: Any
    ) -> None:
        """Create an agent. `contextrender` has the settings of `Planner`."""
        super().__init__(*args, **settings)
        self._session_setting = (contextrender or {}).get("session")
        self._planner = Planner(**(contextrender or {}))
        self._session = ""

    def run(self, task: str = "", **variables: Any) -> Json:
        """Run the task, and record it in the session of the settings, or else in a new one."""
        self._session = self._session_setting or f"mini-{uuid4().hex[:12]}"
        return super().run(task, **variables)

    def query(self) -> Json:
        """Query the model with the rendered messages, and return the model's message.

        `messages` keeps the full history, with the new messages of the model added.
        """
        history = self.messages
        prompt = self._render()
        rendered_count = len(prompt)
        # `DefaultAgent.query` sends `self.messages` and appends the model's messages to them.
        self.messages = prompt
        try:
            return super().query()
        finally:
            self.messages = history
            history.extend(prompt[rendered_count:])

    def serialize(self, *extra_dicts: Json) -> Json:
        """Return the trajectory, with the session's name."""
        info = {"info": {"contextrender": {"session": self._session}}}
        return super().serialize(info, *extra_dicts)

    def _render(self) -> list[Json]:
        """Return the rendered messages for the next model call, as a new list."""
        if any(_is_from_responses(message) for message in self.messages):
            body = {"input": _items(self.messages)}
            fit = self._planner.fit(body, session=self._session, dialect="responses")
            return list(fit.body["input"] if fit.changed else self.messages)
        fit = self._planner.fit(self.messages, session=self._session)
        return list(fit.messages)


class ContextRenderInteractiveAgent(InteractiveAgent, ContextRenderAgent):
    """A `ContextRenderAgent` based on `InteractiveAgent`, which `mini` starts.

    The user's own steps make no model call.
    """


def _is_from_responses(message: Json) -> bool:
    """Return whether a model class of the Responses API made the message."""
    return message.get("object") == "response" or message.get("type") == "function_call_output"


def _items(messages: Sequence[Json]) -> list[Json]:
    """Return the messages as input items of the Responses API.

    A message that is a response of that API becomes the items of its output.
    """
    items: list[Json] = []
    for message in messages:
        if message.get("object") == "response":
            items.extend(message.get("output") or ())
        else:
            items.append(message)
    return items

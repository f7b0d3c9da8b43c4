"""mini-swe-agent: agents that fit each model call's history into a budget.

    mini -c mini.yaml -c contextrender.yaml     # agent_class: ...ContextRenderInteractiveAgent

The agent's own messages, and so its trajectory file, stay whole. Every run is a session.
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
    """`DefaultAgent` whose model is shown what the service chooses of the history."""

    messages: list[Json]

    def __init__(
        self, *args: Any, contextrender: Mapping[str, Any] | None = None, **settings: Any
    ) -> None:
        """`contextrender` has what `Planner` takes; everything else is `DefaultAgent`'s."""
        super().__init__(*args, **settings)
        self._named = (contextrender or {}).get("session")
        self._planner = Planner(**(contextrender or {}))
        self._session = ""

    def run(self, task: str = "", **variables: Any) -> Json:
        """Runs the task, in a session of its own unless the settings name one."""
        self._session = self._named or f"mini-{uuid4().hex[:12]}"
        return super().run(task, **variables)

    def query(self) -> Json:
        """Queries the model with the messages that are shown; keeps all of them."""
        whole = self.messages
        shown = self._shown()
        count = len(shown)
        self.messages = shown
        try:
            return super().query()
        finally:
            self.messages = whole
            whole.extend(shown[count:])

    def serialize(self, *others: Json) -> Json:
        """The trajectory, with the session's name."""
        named = {"info": {"contextrender": {"session": self._session}}}
        return super().serialize(named, *others)

    def _shown(self) -> list[Json]:
        """The messages for the next model call, a list of its own."""
        if any(_is_of_responses(message) for message in self.messages):
            body = {"input": _items(self.messages)}
            fit = self._planner.fit(body, session=self._session, dialect="responses")
            return list(fit.body["input"] if fit.changed else self.messages)
        fit = self._planner.fit(self.messages, session=self._session)
        return list(fit.messages)


class ContextRenderInteractiveAgent(InteractiveAgent, ContextRenderAgent):
    """The same for `InteractiveAgent`, which `mini` starts; the user's own steps ask nothing."""


def _is_of_responses(message: Json) -> bool:
    """Whether a message is one that a model class of the Responses API makes."""
    return message.get("object") == "response" or message.get("type") == "function_call_output"


def _items(messages: Sequence[Json]) -> list[Json]:
    """The input items that messages are to the Responses API: of a response, its output."""
    items: list[Json] = []
    for message in messages:
        if message.get("object") == "response":
            items.extend(message.get("output") or ())
        else:
            items.append(message)
    return items

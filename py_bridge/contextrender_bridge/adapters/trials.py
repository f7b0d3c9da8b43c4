"""One model call of each Python adapter, on a history of `check`'s: what it would send.

The runtime's own types and the adapter's own hook; in place of a model, what takes the call down.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from contextrender_bridge.base.wire import Json

Settings = Mapping[str, Any]


def acon(history: Sequence[Json], settings: Settings) -> list[Any]:
    """By a manager with ACON's interface."""
    from contextrender_bridge.adapters.acon import install

    class Manager:
        def get_conversation_history(self, exclude_system: bool = True) -> list[Json]:
            return _as_text(history)

    agents = SimpleNamespace(MemoryManager=Manager)
    install(agents, **settings)
    return list(agents.MemoryManager().get_conversation_history())


def appworld(history: Sequence[Json], settings: Settings) -> list[Any]:
    """By an agent with the interface of its experiments'."""
    from contextrender_bridge.adapters.appworld import ContextRenderMixin

    class Agent(ContextRenderMixin):
        contextrender = settings
        messages = _as_text(history)
        num_instruction_messages = 1
        world = SimpleNamespace(experiment_name="check", task_id="1")

    return Agent().trimmed_messages


def google_adk(history: Sequence[Json], settings: Settings) -> list[Any]:
    """By the plugin's callback."""
    from google.adk.models.llm_request import LlmRequest
    from google.genai.types import Content, Part

    from contextrender_bridge.adapters.google_adk import ContextRenderPlugin

    def of(message: Json) -> Content:
        if message["role"] == "tool":
            told = {"result": message["content"]}
            return Content(
                role="user", parts=[Part.from_function_response(name="look", response=told)]
            )
        if message["role"] == "user":
            return Content(role="user", parts=[Part(text=message["content"])])
        return Content(
            role="model", parts=[Part.from_function_call(name="look", args=_asked(message))]
        )

    request = LlmRequest(contents=[of(message) for message in history])
    context: Any = SimpleNamespace(
        user_content=request.contents[0], session=SimpleNamespace(id=settings["session"])
    )
    plugin = ContextRenderPlugin(**settings)
    asyncio.run(plugin.before_model_callback(callback_context=context, llm_request=request))
    return list(request.contents)


def hermes(history: Sequence[Json], settings: Settings) -> list[Any]:
    """By the middleware that the plugin registers."""
    from contextrender_bridge.adapters.hermes import ContextRenderMiddleware

    left = ContextRenderMiddleware(**settings)(
        request={"messages": list(history)}, api_mode="chat_completions"
    )
    return list(left["request"]["messages"] if left else history)


def langchain(history: Sequence[Json], settings: Settings) -> list[Any]:
    """By the middleware, within a run as a graph has one."""
    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.messages import convert_to_messages
    from langchain_core.runnables import RunnableLambda

    from contextrender_bridge.adapters.langchain import ContextRenderMiddleware

    sent: list[Any] = []

    def answer(request: ModelRequest) -> ModelResponse:
        sent.extend(request.messages)
        return ModelResponse(result=[])

    middleware = ContextRenderMiddleware(**settings)
    request = ModelRequest(model=None, messages=convert_to_messages(list(history)))
    RunnableLambda(lambda _: middleware.wrap_model_call(request, answer)).invoke(None)
    return sent


def mini_swe_agent(history: Sequence[Json], settings: Settings) -> list[Any]:
    """By an agent's query."""
    from contextrender_bridge.adapters.mini_swe_agent import ContextRenderAgent

    sent: list[Any] = []

    def answer(messages: list[Json]) -> Json:
        sent.extend(messages)
        return {"role": "assistant", "content": "Done.", "extra": {"cost": 0.0}}

    limits = {"step_limit": 0, "cost_limit": 0, "system_template": "", "instance_template": ""}
    model = SimpleNamespace(query=answer)
    agent = ContextRenderAgent(model, None, contextrender=settings, **limits)
    agent.messages = list(history)
    agent._session = settings["session"]
    agent.query()
    return sent


def openai_agents(history: Sequence[Json], settings: Settings) -> list[Any]:
    """By the filter of a run's configuration."""
    from agents.run import CallModelData, ModelInputData

    from contextrender_bridge.adapters.openai_agents import ContextRenderFilter

    def of(message: Json) -> Json:
        if message["role"] == "tool":
            called = {"call_id": message["tool_call_id"], "output": message["content"]}
            return {"type": "function_call_output", **called}
        if message["role"] == "user":
            return dict(message)
        (call,) = message["tool_calls"]
        return {"type": "function_call", "call_id": call["id"], **call["function"]}

    asked: Any = ModelInputData(input=[of(message) for message in history], instructions=None)  # type: ignore[misc,unused-ignore]
    data: Any = CallModelData(model_data=asked, agent=None, context=None)
    return list(asyncio.run(ContextRenderFilter(**settings)(data)).input)


def pydantic_ai(history: Sequence[Json], settings: Settings) -> list[Any]:
    """By an agent with the capability, whose model is a function."""
    from pydantic_ai import Agent
    from pydantic_ai import messages as own
    from pydantic_ai.models.function import FunctionModel

    from contextrender_bridge.adapters.pydantic_ai import ContextRenderCapability

    def of(message: Json) -> Any:
        if message["role"] == "tool":
            id, content = message["tool_call_id"], message["content"]
            part = own.ToolReturnPart(tool_name="look", content=content, tool_call_id=id)
            return own.ModelRequest(parts=[part])
        if message["role"] == "user":
            return own.ModelRequest(parts=[own.UserPromptPart(content=message["content"])])
        (call,) = message["tool_calls"]
        called = own.ToolCallPart(tool_name="look", args=_asked(message), tool_call_id=call["id"])
        return own.ModelResponse(parts=[called])

    sent: list[Any] = []

    def answer(messages: list[Any], _: Any) -> Any:
        sent.extend(messages)
        return own.ModelResponse(parts=[own.TextPart(content="Done.")])

    agent = Agent(FunctionModel(answer), capabilities=[ContextRenderCapability(**settings)])
    agent.run_sync("Which is the next?", message_history=[of(message) for message in history])
    return sent


def smolagents(history: Sequence[Json], settings: Settings) -> list[Any]:
    """By an agent's memory, as messages."""
    from smolagents import ActionStep, Model, TaskStep, ToolCallingAgent
    from smolagents.memory import ToolCall
    from smolagents.monitoring import Timing

    from contextrender_bridge.adapters.smolagents import with_contextrender

    agent = with_contextrender(ToolCallingAgent, **settings)(tools=[], model=Model())
    agent.memory.steps.append(TaskStep(task=history[0]["content"]))
    for number, (asked, told) in enumerate(zip(history[1::2], history[2::2], strict=True)):
        call = ToolCall(name="look", arguments=_asked(asked), id=told["tool_call_id"])
        step = ActionStep(step_number=number, timing=Timing(start_time=0.0, end_time=0.0))
        step.tool_calls, step.observations = [call], told["content"]
        agent.memory.steps.append(step)
    return list(agent.write_memory_to_messages())


TRIALS: dict[str, Callable[[Sequence[Json], Settings], list[Any]]] = {
    trial.__name__: trial
    for trial in (
        acon,
        appworld,
        google_adk,
        hermes,
        langchain,
        mini_swe_agent,
        openai_agents,
        pydantic_ai,
        smolagents,
    )
}


def _asked(message: Json) -> Json:
    """The arguments of a message's one call."""
    asked: Json = json.loads(message["tool_calls"][0]["function"]["arguments"])
    return asked


def _as_text(history: Sequence[Json]) -> list[Json]:
    """The same run of an agent whose calls and results are text."""
    roles = {"tool": "user"}
    return [
        {
            "role": roles.get(message["role"], message["role"]),
            "content": message["content"] or f"look({_asked(message)['host']})",
        }
        for message in history
    ]

"""ACON's loop as a double: results are omitted from the agent's calls and restored.

ACON is a research repository without a package, so this test runs none of its code. `Memory` and
`Agent` are doubles of its published interface: the memory manager's state and methods, and the
order in which the agent's loop calls them. The service and the model calls are real.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from contextrender_bridge.adapters.acon import install
from contextrender_bridge.base.wire import Json

from adapters.conftest import Loopback
from adapters.testing import hosts
from adapters.testing.commands import UNCHANGED
from adapters.testing.scripted import Call, Say, Script

BUDGET = 1000
TASK = "Find out which of nine hosts are slow, and restart those. The first is host_0_X."


class Memory:
    """Double of `MemoryManager` without its own compression (`co_config` None)."""

    def __init__(self, exp_config: Any, preinit_model: Any = None) -> None:
        self.llm_history: list[list[Json]] = [[]]
        self.entire_session: list[Json] = []
        self.step = 0
        self.do_history_optimization = exp_config.co_config is not None

    def add_system_prompt(self, system_prompt: str) -> None:
        self._add("system", system_prompt)

    def add_user_prompt(self, user_prompt: str) -> None:
        self._add("user", user_prompt)

    def add_assistant_response(self, assistant_response: str) -> None:
        self._add("assistant", assistant_response)
        self.step += 1

    def get_conversation_history(self, exclude_system: bool = True) -> list[Json]:
        session = self.llm_history[-1]
        return session[1:] if exclude_system and session[0]["role"] == "system" else session

    def _add(self, role: str, content: str) -> None:
        self.llm_history[-1].append({"role": role, "content": content})
        self.entire_session.append({"role": role, "content": content})


class Hosts:
    """An environment whose observations have no marker at their start."""

    def __init__(self) -> None:
        self.observation = TASK
        self.is_done = False

    def step(self, action: str) -> None:
        name, host = action.split()
        finding = hosts.finding(int(host.split("_")[1]))
        self.observation = finding if name == "look" else "It is done."
        self.is_done = name == "finish"


class Agent:
    """Double of `UnifiedAgent`, which takes its memory manager from its module."""

    def __init__(self, module: Any, url: str) -> None:
        self.url = url
        self.memory_manager = module.MemoryManager(
            SimpleNamespace(co_config=None), preinit_model=None
        )
        self.memory_manager.add_system_prompt("Say what to do: look HOST, restart HOST, finish.")

    def run(self, env: Hosts) -> None:
        while not env.is_done:
            self.memory_manager.add_user_prompt(env.observation)
            prompt = self.memory_manager.get_conversation_history(exclude_system=True)
            response = self._forward(prompt)
            self.memory_manager.add_assistant_response(response)
            env.step(response)

    def _forward(self, prompt: list[Json]) -> str:
        body = {"model": "m", "messages": prompt}
        reply = httpx.post(f"{self.url}/v1/chat/completions", json=body).json()
        text: str = reply["choices"][0]["message"]["content"]
        return text


STEPS = [step for step in hosts.steps() if isinstance(step, Call)]


def run(loopback: Loopback, **settings: Any) -> tuple[Script, Any]:
    """Run the agent to its end. Return the script with its requests, and the memory manager."""
    answers = [Say(f"{step.name} {step.arguments['host']}") for step in STEPS]
    script = Script(loopback.model, [*answers, Say("finish host_0_X")], lambda body: True)
    module = SimpleNamespace(MemoryManager=Memory)
    install(module, **settings)
    agent = Agent(module, loopback.model.url)
    agent.run(Hosts())
    return script, agent.memory_manager


def test_loop_renders_prompts_and_keeps_full_history(
    loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    script, memory = run(
        loopback, client=loopback.client, budget=BUDGET, policy="contextrender", deadline=10.0
    )
    assert UNCHANGED not in caplog.text
    hosts.check(replace(script, steps=[*STEPS, script.steps[-1]]))
    for body in script.requests:
        roles = [message["role"] for message in body["messages"]]
        assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
    assert len(memory.llm_history[0]) == 1 + 2 * len(script.steps)
    assert memory.llm_history[0] == memory.entire_session
    (session,) = loopback.sessions()
    assert session["session"].startswith("acon-")
    assert session["turns"] == len(script.steps) - 1


def test_second_install_changes_only_settings() -> None:
    module: Any = SimpleNamespace(MemoryManager=Memory)
    install(module, budget=1)
    install(module, budget=2)
    memory_class = module.MemoryManager
    assert memory_class.contextrender == {"budget": 2}
    assert [base.__name__ for base in memory_class.__mro__].count("ContextRenderMemory") == 1

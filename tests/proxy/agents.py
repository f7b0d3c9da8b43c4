"""Doubles of agents that keep their full history and send it with every model call."""

import json
from typing import Any, Self

import httpx
from contextrender_bridge.base.wire import Json

from tests.proxy.conftest import Setup
from tests.support.scripted_model import Reply, answer_chat, answer_messages, answer_responses, call

FILLER = "All is well here and nothing else is to be told. " * 12
TASK = "Find out which hosts are slow, one after the other."


def finding(number: int) -> str:
    """Return the result of a step, which names the host of the next step."""
    return f"host_{number + 1}_X answers in {number * 17}ms.\n{FILLER}"


class Agent:
    """An agent that calls a tool in each turn, with a host that an earlier result named."""

    path = ""
    key = "messages"

    def __init__(self, setup: Setup, session: str = "", *, streams: bool = False) -> None:
        self.setup = setup
        self.streams = streams
        self.prefix = f"/s/{session}" if session else ""
        self.headers: dict[str, str] = {}
        self.items: list[Any] = []
        self.extra: Json = {}
        self.begin()

    def begin(self) -> None:
        raise NotImplementedError

    def reply(self, number: int, quoted: int) -> Reply:
        raise NotImplementedError

    def take(self, number: int, quoted: int) -> None:
        raise NotImplementedError

    def run(self, turns: int, quoted: dict[int, int] | None = None) -> list[Json]:
        """Run turns and return the prompt of each. `quoted` maps a turn to the host that its call
        names."""
        hosts = quoted or {}
        return [self.step(number, hosts.get(number, number)) for number in self.next_numbers(turns)]

    def next_numbers(self, turns: int) -> range:
        process = len(self.results(self.items))
        return range(process, process + turns)

    def step(self, number: int, host: int) -> Json:
        reply = self.reply(number, host)
        self.setup.model.script = [reply]
        self.response = self.post()
        assert self.response.content == reply.body
        self.take(number, host)
        return dict(self.setup.model.requests[-1].json)

    def add_turns(self, turns: int) -> Self:
        """Add this many turns to the history without sending them."""
        for number in self.next_numbers(turns):
            self.take(number, number)
        return self

    @property
    def body(self) -> Json:
        return {"model": "m", **self.extra, self.key: self.items, "stream": self.streams}

    def post(self, **headers: str) -> httpx.Response:
        return self.setup.post(self.prefix + self.path, self.body, **self.headers, **headers)

    def results(self, items: list[Any]) -> list[str]:
        raise NotImplementedError


class ChatAgent(Agent):
    path = "/v1/chat/completions"

    def begin(self) -> None:
        self.items = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": TASK, "cache_control": MARK}]},
        ]

    def _call(self, number: int, host: int) -> Json:
        return call(f"c{number}", "look", at=f"host_{host}_X")

    def reply(self, number: int, quoted: int) -> Reply:
        return answer_chat(self.streams, None, [self._call(number, quoted)])

    def take(self, number: int, quoted: int) -> None:
        tool_calls = [self._call(number, quoted)]
        self.items += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": tool_calls,
                "reasoning_content": "hm",
            },
            {"role": "tool", "tool_call_id": f"c{number}", "content": finding(number)},
        ]

    def results(self, items: list[Any]) -> list[str]:
        return [item["content"] for item in items if item["role"] == "tool"]


class MessagesAgent(Agent):
    path = "/v1/messages"

    def begin(self) -> None:
        self.extra = {"max_tokens": 99, "system": [{"type": "text", "text": "Be brief."}]}
        self.items = [{"role": "user", "content": TASK}]

    def _blocks(self, number: int, host: int) -> list[Json]:
        arguments = {"at": f"host_{host}_X"}
        return [
            {"type": "thinking", "thinking": "Hm.", "signature": f"s{number}"},
            {"type": "tool_use", "id": f"t{number}", "name": "look", "input": arguments},
        ]

    def reply(self, number: int, quoted: int) -> Reply:
        return answer_messages(self.streams, self._blocks(number, quoted), "tool_use")

    def take(self, number: int, quoted: int) -> None:
        for item in self.items:
            if isinstance(item["content"], list):
                item["content"][-1].pop("cache_control", None)
        content = [{"type": "text", "text": finding(number)}]
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": content}
        self.items += [
            {"role": "assistant", "content": self._blocks(number, quoted)},
            {"role": "user", "content": [{**result, "cache_control": MARK}]},
        ]

    def results(self, items: list[Any]) -> list[str]:
        return [
            "\n".join(part["text"] for part in block["content"])
            for item in items
            for block in item["content"]
            if isinstance(block, dict) and block["type"] == "tool_result"
        ]


class ResponsesAgent(Agent):
    path = "/v1/responses"
    key = "input"

    def begin(self) -> None:
        self.extra = {"instructions": "Be brief.", "store": False}
        self.items = [{"role": "user", "content": [{"type": "input_text", "text": TASK}]}]

    def _items(self, number: int, host: int) -> list[Json]:
        reasoning = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
        fields = {"name": "look", "arguments": json.dumps({"at": f"host_{host}_X"})}
        ids = {"id": f"fc_{number}", "call_id": f"k{number}"}
        return [{**reasoning, "encrypted_content": "e"}, {"type": "function_call", **ids, **fields}]

    def reply(self, number: int, quoted: int) -> Reply:
        return answer_responses(self.streams, self._items(number, quoted))

    def take(self, number: int, quoted: int) -> None:
        output = {"type": "function_call_output", "call_id": f"k{number}"}
        self.items += [*self._items(number, quoted), {**output, "output": finding(number)}]

    def results(self, items: list[Any]) -> list[str]:
        return [item["output"] for item in items if item.get("type") == "function_call_output"]


class TextAgent(Agent):
    path = "/v1/chat/completions"

    def begin(self) -> None:
        self.items = [{"role": "user", "content": TASK}]

    def _answer(self, host: int) -> str:
        return f"Thought: on.\nAction: look at host_{host}_X"

    def reply(self, number: int, quoted: int) -> Reply:
        return answer_chat(self.streams, self._answer(quoted))

    def take(self, number: int, quoted: int) -> None:
        output = f"[OUTPUT OF STEP {number}] Observation:\n***\n{finding(number)}\n***"
        self.items += [
            {"role": "assistant", "content": self._answer(quoted)},
            {"role": "user", "content": output},
        ]

    def results(self, items: list[Any]) -> list[str]:
        return [item["content"] for item in items if "[OUTPUT OF" in str(item["content"])]


MARK = {"type": "ephemeral"}
AGENTS = [ChatAgent, MessagesAgent, ResponsesAgent, TextAgent]
EACH_WAY = list(zip(AGENTS, [True, False] * 2, strict=True))
"""Each type of agent and whether it streams."""

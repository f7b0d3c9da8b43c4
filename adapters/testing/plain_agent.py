"""A simple agent (a double) that keeps its whole history and uses chat completions."""

import json
from typing import Any

import httpx

from adapters.testing import hosts

Json = dict[str, Any]

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
TASKS = ("Find out which of the first six hosts are slow.", "And of the next three?")


def work(http: httpx.Client) -> None:
    """Do both tasks of the hosts, in one history."""
    messages: list[Json] = []
    for task, answer in zip(TASKS, hosts.ANSWERS, strict=True):
        messages.append({"role": "user", "content": task})
        while messages[-1].get("content") != answer:
            body = {"model": "gpt-4o-mini", "messages": messages, "tools": [TOOL]}
            response = http.post("/v1/chat/completions", json=body)
            assert response.status_code == 200, response.text
            messages += next_messages(response.json()["choices"][0]["message"])


def next_messages(answer: Json) -> list[Json]:
    """Return the model's answer, and the result of its call if it has one."""
    message = {"role": "assistant", "content": answer["content"]}
    if not answer.get("tool_calls"):
        return [message]
    (call,) = answer["tool_calls"]
    name, host = call["function"]["name"], json.loads(call["function"]["arguments"])["host"]
    text = hosts.finding(int(host.split("_")[1])) if name == "look" else "Done."
    result = {"role": "tool", "tool_call_id": call["id"], "content": text}
    return [{**message, "tool_calls": [call]}, result]

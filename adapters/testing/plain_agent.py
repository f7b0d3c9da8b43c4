"""A plain agent (a double) that keeps its whole history and calls its model by chat completions."""

import json
from typing import Any

import httpx

from adapters.testing import hosts

Json = dict[str, Any]

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
TASKS = ("Find out which of the first six hosts are slow.", "And of the next three?")


def work(http: httpx.Client) -> None:
    """Both tasks of the hosts, in one history."""
    messages: list[Json] = []
    for task, answer in zip(TASKS, hosts.ANSWERS, strict=True):
        messages.append({"role": "user", "content": task})
        while messages[-1].get("content") != answer:
            body = {"model": "gpt-4o-mini", "messages": messages, "tools": [TOOL]}
            got = http.post("/v1/chat/completions", json=body)
            assert got.status_code == 200, got.text
            messages += goes_on(got.json()["choices"][0]["message"])


def goes_on(said: Json) -> list[Json]:
    """What the model said, and what came of it."""
    message = {"role": "assistant", "content": said["content"]}
    if not said.get("tool_calls"):
        return [message]
    (call,) = said["tool_calls"]
    name, host = call["function"]["name"], json.loads(call["function"]["arguments"])["host"]
    told = hosts.finding(int(host.split("_")[1])) if name == "look" else "Done."
    result = {"role": "tool", "tool_call_id": call["id"], "content": told}
    return [{**message, "tool_calls": [call]}, result]

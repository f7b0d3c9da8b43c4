"""Who answers the agent: any LiteLLM model, or the script of the synthetic task."""

import json
import re
from collections.abc import Callable

from contextrender_bridge.wire import Json

from engine.models.providers import litellm
from engine.text.tokens import counter_for

Complete = Callable[[Json], Json]
"""A chat completion for a request body."""

PARTS = 12
_FOUND = re.compile(r"part_(\d+) costs (PRICE_\d+)")


def through_litellm(model: str) -> Complete:
    """Sends each request, as the agent made it, to that model; without streaming."""

    def complete(body: Json) -> Json:
        asked = {name: value for name, value in body.items() if name not in ("model", "stream")}
        reply: Json = litellm().completion(model=model, **asked).model_dump()
        return reply

    return complete


def missing_keys(model: str) -> list[str]:
    """The environment variables that LiteLLM needs for a model and that are not set."""
    missing: list[str] = litellm().validate_environment(model)["missing_keys"]
    return missing


class Script:
    """Asks for one part after the other, then answers with the prices its prompt still shows.

    So a policy's score is what it kept in view: a check of the harness, not of an agent.
    """

    def __init__(self, seed: int) -> None:
        self._first = seed
        self._turn = 0
        self._previous = ""

    def __call__(self, body: Json) -> Json:
        """The next message."""
        prompt = json.dumps(body["messages"])
        turn, self._turn = self._turn, self._turn + 1
        message: Json = {"role": "assistant", "content": None}
        if turn < PARTS:
            arguments = json.dumps({"part": (turn + self._first) % PARTS})
            function = {"name": "get_price", "arguments": arguments}
            message["tool_calls"] = [{"id": f"c{turn}", "type": "function", "function": function}]
        else:
            prices = dict(_FOUND.findall(prompt))
            message["content"] = "; ".join(f"{part}={prices[part]}" for part in sorted(prices))
        reason = "tool_calls" if turn < PARTS else "stop"
        return {
            "id": f"script-{turn}",
            "object": "chat.completion",
            "created": 0,
            "model": "scripted",
            "choices": [{"index": 0, "finish_reason": reason, "message": message}],
            "usage": self._usage(prompt, json.dumps(message)),
        }

    def _usage(self, prompt: str, said: str) -> Json:
        """Counts, with what repeats the last prompt's beginning as cached."""
        counter = counter_for(None)
        same = 0
        for before, now in zip(self._previous, prompt, strict=False):
            if before != now:
                break
            same += 1
        self._previous = prompt
        return {
            "prompt_tokens": counter.text(prompt),
            "completion_tokens": counter.text(said),
            "prompt_tokens_details": {"cached_tokens": counter.text(prompt[:same])},
        }

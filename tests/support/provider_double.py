"""A labelled double: an OpenAI-compatible provider on loopback, by what it answers to a body."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.scripted_model import Asked, Model, Reply, chat, serving, whole

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


class ProviderDouble:
    """Records every request body; `answer` maps a body to a status and a JSON reply."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.url = ""

    @property
    def prompts(self) -> list[str]:
        return [json.dumps(body["messages"]) for body in self.requests]

    def environment(self, **models: str) -> dict[str, str]:
        """What makes it a service's provider: of its `model`, its `embed_model`, or both."""
        known = {"OPENAI_API_BASE": self.url, "OPENAI_API_KEY": "scripted"}
        return known | {f"CONTEXTRENDER_{kind.upper()}": model for kind, model in models.items()}

    def reply(self, asked: Asked) -> Reply:
        body = asked.json
        self.requests.append(body)
        status, value = self.answer(body)
        return whole(value, status)


@contextmanager
def provider(answer: Answer) -> Iterator[ProviderDouble]:
    """Serves `answer` at `double.url` until the block ends."""
    double, model = ProviderDouble(answer), Model()
    model.answer = double.reply
    with serving(model, lifespan="off") as url:
        double.url = f"{url}/v1"
        yield double


@contextmanager
def provided(answer: Answer, **models: str) -> Iterator[ProviderDouble]:
    """The same as the provider of this process, whose environment names it and its models."""
    with provider(answer) as double, pytest.MonkeyPatch.context() as patch:
        for name, value in double.environment(**models).items():
            patch.setenv(name, value)
        yield double


def chat_reply(content: object) -> dict[str, Any]:
    """A chat completion whose message is `content`, as JSON text unless it is text."""
    text = content if isinstance(content, str) else json.dumps(content)
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return chat(text) | {"usage": usage}


def embedding_reply(vectors: list[list[float]]) -> dict[str, Any]:
    """An embedding reply, items in reverse order as the API allows."""
    items = [
        {"object": "embedding", "index": index, "embedding": vector}
        for index, vector in enumerate(vectors)
    ]
    return {
        "object": "list",
        "model": "scripted",
        "data": items[::-1],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


def failure(status: int) -> tuple[int, Any]:
    return status, {"error": {"message": "scripted failure", "type": "scripted", "code": status}}


def stalled(released: threading.Event, reply: Any = None) -> tuple[int, Any]:
    """Answers only once it is released, or far too late."""
    released.wait(60)
    return 200, reply

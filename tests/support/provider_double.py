"""A double of an OpenAI-compatible provider on loopback, which maps request bodies to replies."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.scripted_model import Model, ModelRequest, Reply, chat, json_reply, serving

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


class ProviderDouble:
    """A provider that records request bodies; `answer` maps a body to a status and a JSON reply."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.url = ""

    @property
    def prompts(self) -> list[str]:
        return [json.dumps(body["messages"]) for body in self.requests]

    def environment(self, **models: str) -> dict[str, str]:
        """Return the variables that make it a service's provider for `model`, `embed_model`, or
        both."""
        variables = {"OPENAI_API_BASE": self.url, "OPENAI_API_KEY": "scripted"}
        return variables | {
            f"CONTEXTRENDER_{kind.upper()}": model for kind, model in models.items()
        }

    def reply(self, request: ModelRequest) -> Reply:
        body = request.json
        self.requests.append(body)
        status, value = self.answer(body)
        return json_reply(value, status)


@contextmanager
def provider(answer: Answer) -> Iterator[ProviderDouble]:
    """Serve `answer` at `double.url` until the block ends."""
    double, model = ProviderDouble(answer), Model()
    model.answer = double.reply
    with serving(model, lifespan="off") as url:
        double.url = f"{url}/v1"
        yield double


@contextmanager
def provider_of_process(answer: Answer, **models: str) -> Iterator[ProviderDouble]:
    """Serve `answer`, and name the provider and its models in this process's environment."""
    with provider(answer) as double, pytest.MonkeyPatch.context() as patch:
        for name, value in double.environment(**models).items():
            patch.setenv(name, value)
        yield double


def chat_reply(content: object) -> dict[str, Any]:
    """Return a chat completion with `content` as its message, as JSON unless it is text."""
    text = content if isinstance(content, str) else json.dumps(content)
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return chat(text) | {"usage": usage}


def embedding_reply(vectors: list[list[float]]) -> dict[str, Any]:
    """Return an embedding reply with items in reverse order, which the API allows."""
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


def reply_late(released: threading.Event, reply: Any = None) -> tuple[int, Any]:
    """Return a reply after `released` is set, or after a minute."""
    released.wait(60)
    return 200, reply

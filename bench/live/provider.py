"""What stands before the model: it counts what each reply says was used. Or it is the model.

The scripted model reads sheet after sheet, then answers with the prices that its prompt shows; one
that it is asked for and no longer sees, it looks up again. Its usage is counted as OpenAI bills it:
what a prompt begins with as an earlier one did comes from the cache.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from contextrender_bridge.base import wire
from contextrender_bridge.base.usage import Usage, read_usage
from contextrender_bridge.base.wire import Json

from engine.text.tokens import counter_for
from tests.support.scripted_model import Asked, Model, Reply, serving, whole

CACHED_FROM = 1024
"""Tokens; shorter beginnings are not cached."""
SCRIPTED = "scripted"
_ASKED = re.compile(r"part_(\d\d)")
_PRICE = re.compile(r"part_(\d\d) costs (PRICE_\d+)")
_SHEET = re.compile(r"sheet_(\d\d)\.txt")


class Scripted:
    """A model that follows the tasks' script."""

    def __init__(self) -> None:
        self._known: list[list[str]] = []

    def answer(self, body: Json) -> Json:
        messages = body["messages"]
        task = str(next(m["content"] for m in messages if m["role"] == "user"))
        question = task.rpartition("prices of")[2].partition("\n\n")[0]
        shown = dict(_PRICE.findall("\n".join(str(m["content"]) for m in messages)))
        read = self._read(messages)
        sheets = sorted(set(_SHEET.findall(task.rpartition("The files:")[2])))
        lacking = [sheet for sheet in sheets if int(sheet) > read][:1]
        lacking = lacking or [part for part in _ASKED.findall(question) if part not in shown]
        message: Json = {"role": "assistant", "content": None}
        if lacking:
            arguments = wire.dumps({"name": f"sheet_{lacking[0]}.txt"}).decode()
            function = {"name": "read_file", "arguments": arguments}
            name = f"call_{os.urandom(6).hex()}"
            message["content"] = f"Next: sheet {int(lacking[0]) + 1} of {len(sheets)}."
            message["tool_calls"] = [{"id": name, "type": "function", "function": function}]
        else:
            message["content"] = ", ".join(shown[part] for part in _ASKED.findall(question))
        return {
            "id": "scripted",
            "object": "chat.completion",
            "model": body.get("model"),
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": self._usage(messages, message),
        }

    @staticmethod
    def _read(messages: list[Json]) -> int:
        """The number of the last sheet that it said it reads."""
        said = (str(m.get("content")) for m in messages if m["role"] == "assistant")
        steps = [int(found) for text in said for found in re.findall(r"sheet (\d+) of", text)]
        return max(steps, default=0) - 1

    def _usage(self, messages: list[Json], message: Json) -> Json:
        counter = counter_for(None)
        prompt = [wire.dumps(one).decode() for one in messages]
        same = max((_beginning(prompt, known) for known in self._known), default=0)
        self._known.append(prompt)
        cached = sum(map(counter.text, prompt[:same]))
        return {
            "prompt_tokens": sum(map(counter.text, prompt)),
            "completion_tokens": counter.text(wire.dumps(message).decode()),
            "prompt_tokens_details": {"cached_tokens": cached if cached >= CACHED_FROM else 0},
        }


def _beginning(one: list[str], other: list[str]) -> int:
    """How many messages they begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


class Meter:
    """Passes requests on to `upstream`, or answers them as the scripted model."""

    def __init__(self, upstream: str) -> None:
        """`upstream` is "scripted", or a provider's address."""
        self.url = ""
        self.used: list[Usage] = []
        self.failed = 0
        self._scripted = Scripted() if upstream == SCRIPTED else None
        self._upstream = upstream.rstrip("/")
        self._http = httpx.Client(timeout=600.0)

    def answer(self, asked: Asked) -> Reply:
        """The reply, whose usage is noted."""
        if self._scripted is not None:
            reply = whole(self._scripted.answer(asked.json))
        else:
            left_out = (b"host", b"content-length", b"connection", b"accept-encoding")
            sent = [(name, value) for name, value in asked.headers if name not in left_out]
            path = asked.path.removeprefix("/v1" if self._upstream.endswith("/v1") else "")
            got = self._http.post(f"{self._upstream}{path}", content=asked.body, headers=sent)
            kind = (b"content-type", got.headers.get("content-type", "").encode())
            reply = Reply([got.content], got.status_code, [kind])
        used = read_usage(reply.headers[0][1].decode(), reply.body) if reply.status < 300 else None
        self.failed += reply.status >= 300
        if used is not None:
            self.used.append(used)
        return reply


@contextmanager
def metered(upstream: str) -> Iterator[Meter]:
    """A meter at `meter.url` until the block ends."""
    meter, model = Meter(upstream), Model()
    model.answer = meter.answer
    with serving(model, lifespan="off") as meter.url:
        yield meter

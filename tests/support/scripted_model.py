"""A double of a model: a server on loopback that records requests and sends scripted replies.

Each request gets the next entry of `script`, or the result of `answer`, which runs in its own
thread. Without both, it gets a short chat completion.
"""

import asyncio
import json
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from contextrender_bridge.base.wire import Json


@dataclass
class ModelRequest:
    method: str
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body or "{}")

    def header(self, name: str) -> str | None:
        return next((v.decode() for k, v in self.headers if k == name.encode()), None)


@dataclass
class Reply:
    """A reply of the model: `chunks`, each after a pause. If `breaks`, the connection ends early.

    If `late`, there is a pause before the first byte, too. The last chunk waits until `may_end()`
    is true.
    """

    chunks: list[bytes]
    status: int = 200
    headers: list[tuple[bytes, bytes]] = field(
        default_factory=lambda: [(b"content-type", b"application/json")]
    )
    pause: float = 0.0
    breaks: bool = False
    late: bool = False
    may_end: Callable[[], bool] = lambda: True

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)


class Model:
    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.script: list[Reply] = []
        self.answer: Callable[[ModelRequest], Reply] | None = None
        self.cancelled = 0
        self.url = ""
        self._threads = ThreadPoolExecutor(64)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        query = scope["query_string"].decode()
        path = scope["raw_path"].decode() + (f"?{query}" if query else "")
        request = ModelRequest(scope["method"], path, list(scope["headers"]), body)
        self.requests.append(request)
        if self.answer:
            task = asyncio.get_running_loop().run_in_executor(self._threads, self.answer, request)
            reply = await task
        else:
            reply = self.next(request)
        start = {"type": "http.response.start", "status": reply.status, "headers": reply.headers}
        watcher = asyncio.create_task(receive())
        if reply.late:
            await asyncio.wait({watcher}, timeout=reply.pause)
        await send(start)
        for number, chunk in enumerate(reply.chunks, 1):
            while number == len(reply.chunks) and not reply.may_end():
                await asyncio.sleep(0.01)
            if reply.pause:
                await asyncio.wait({watcher}, timeout=reply.pause)
                if watcher.done():
                    self.cancelled += 1
                    return
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        watcher.cancel()
        if not reply.breaks:
            await send({"type": "http.response.body", "body": b""})

    def next(self, request: ModelRequest) -> Reply:
        return self.script.pop(0) if self.script else json_reply(chat("hello"))


@contextmanager
def serving(app: Any, **options: Any) -> Iterator[str]:
    """Serve an ASGI app on a loopback port of this process until the block ends; yield its
    address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    # uvloop's `close` can block forever after a client has closed its connection.
    config = uvicorn.Config(
        app,
        loop="asyncio",
        log_config=None,
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=1,
        # Longer than httpx keeps connections, because a connection that closes during a request
        # fails it.
        **{"timeout_keep_alive": 75, **options},
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def json_reply(value: Any, status: int = 200, **headers: str) -> Reply:
    extra = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    body = json.dumps(value).encode()
    length = (b"content-length", str(len(body)).encode())
    return Reply([body], status, [(b"content-type", b"application/json"), length, *extra])


def stream(events: list[Any], *, event_lines: bool = False, pause: float = 0.0) -> Reply:
    """Return a reply of server-sent events; `event_lines` adds an `event:` line to each."""
    chunks = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event, separators=(", ", " : "))
        name = f"event: {event['type']}\n" if event_lines else ""
        chunks.append(f"{name}data: {data}\n\n".encode())
    return Reply(chunks, 200, [(b"content-type", b"text/event-stream; charset=utf-8")], pause)


def chat(text: str | None = None, calls: list[Json] | None = None) -> Json:
    message: Json = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def chat_events(text: str = "", calls: list[Json] | None = None, prompt: int = 9) -> list[Any]:
    """Return a chat completion as stream events, with text and arguments in pieces."""

    def chunk(delta: Json, reason: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        return {**head, "choices": [choice], "usage": None}

    events: list[Any] = [chunk({"role": "assistant", "content": None if calls else ""})]
    events += [chunk({"content": piece}) for piece in _pieces(text)]
    for index, call in enumerate(calls or []):
        function = call["function"]
        opening = {**call, "function": {"name": function["name"], "arguments": ""}}
        events.append(chunk({"tool_calls": [{"index": index, **opening}]}))
        for piece in _pieces(function["arguments"]):
            delta = {"index": index, "function": {"arguments": piece}}
            events.append(chunk({"tool_calls": [delta]}))
    events.append(chunk({}, "tool_calls" if calls else "stop"))
    counts = {"prompt_tokens": prompt, "completion_tokens": 4, "total_tokens": prompt + 4}
    return [*events, {**chunk({}), "choices": [], "usage": counts}, "[DONE]"]


def call(call_id: str, name: str, **arguments: Any) -> Json:
    body = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id, "type": "function", "function": body}


def anthropic_message(blocks: list[Json], reason: str = "end_turn", name: str = "msg_1") -> Json:
    """Return an Anthropic message; `name` is its id."""
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": blocks,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 4},
    }


def anthropic_events(
    blocks: list[Json], reason: str = "end_turn", name: str = "msg_1"
) -> list[Json]:
    begun = {**anthropic_message([], name=name), "stop_reason": None}
    events: list[Json] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for index, block in enumerate(blocks):
        empty, deltas = _opened(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 4}})
    return [*events, {"type": "message_stop"}]


def response(items: list[Json]) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": items,
        "usage": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13},
    }


def response_events(items: list[Json]) -> list[Json]:
    begun = {**response([]), "status": "in_progress"}
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(items):
        place = {"output_index": index, "item_id": item.get("id", f"item_{index}")}
        opened = {**item, "status": "in_progress"}
        if item["type"] == "function_call":
            opened["arguments"] = ""
        added = {"type": "response.output_item.added", "output_index": index, "item": opened}
        events.append(added)
        if item["type"] == "function_call":
            kind = "response.function_call_arguments"
            pieces = _pieces(item["arguments"])
            events += [{"type": f"{kind}.delta", **place, "delta": piece} for piece in pieces]
            events.append({"type": f"{kind}.done", **place, "arguments": item["arguments"]})
        elif item["type"] == "message":
            pieces = _pieces(item["content"][0]["text"])
            delta = {"type": "response.output_text.delta", **place, "content_index": 0}
            events += [{**delta, "delta": piece} for piece in pieces]
        done_event = {"type": "response.output_item.done", "output_index": index, "item": item}
        events.append(done_event)
    events.append({"type": "response.completed", "response": response(items)})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def answer_chat(streams: bool, text: str | None = None, calls: list[Json] | None = None) -> Reply:
    return stream(chat_events(text or "", calls)) if streams else json_reply(chat(text, calls))


def answer_messages(streams: bool, blocks: list[Json], *more: str) -> Reply:
    events = anthropic_events(blocks, *more)
    return (
        stream(events, event_lines=True)
        if streams
        else json_reply(anthropic_message(blocks, *more))
    )


def answer_responses(streams: bool, items: list[Json]) -> Reply:
    return (
        stream(response_events(items), event_lines=True) if streams else json_reply(response(items))
    )


def _opened(block: Json) -> tuple[Json, list[Json]]:
    if block["type"] == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        return {**block, "text": ""}, deltas
    if block["type"] == "tool_use":
        arguments = json.dumps(block["input"])
        pieces = [{"type": "input_json_delta", "partial_json": p} for p in _pieces(arguments)]
        return {**block, "input": {}}, pieces
    deltas = [
        {"type": "thinking_delta", "thinking": block["thinking"]},
        {"type": "signature_delta", "signature": block["signature"]},
    ]
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


def _pieces(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


async def slow_body(values: list[bytes], pause: float) -> AsyncIterator[bytes]:
    """Yield the parts of a request body with pauses."""
    for value in values:
        await asyncio.sleep(pause)
        yield value


if __name__ == "__main__":
    PLAIN, STREAM = json_reply(chat("word " * 40)), stream(chat_events("word " * 40))

    class Always(Model):
        """A model that sends the same reply at once and records nothing."""

        def next(self, request: ModelRequest) -> Reply:
            self.requests.clear()
            return STREAM if request.json.get("stream") else PLAIN

    uvicorn.run(Always(), port=int(sys.argv[1]), log_config=None, access_log=False, lifespan="off")

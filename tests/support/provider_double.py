"""A labelled double: an OpenAI-compatible model server on loopback that answers from a script."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


class ProviderDouble:
    """Records every request body; `answer` maps a body to a status and a JSON reply."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.url = ""


@contextmanager
def provider(answer: Answer) -> Iterator[ProviderDouble]:
    """Serves `answer` at `double.url` until the block ends."""
    double = ProviderDouble(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            double.requests.append(body)
            status, reply = double.answer(body)
            payload = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            """Stays quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    double.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()


def chat_reply(content: object) -> dict[str, Any]:
    """A chat completion whose message is `content`, as JSON text unless it is text."""
    text = content if isinstance(content, str) else json.dumps(content)
    return {
        "id": "scripted",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


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
    """An OpenAI error reply."""
    return status, {"error": {"message": "scripted failure", "type": "scripted", "code": status}}


def stalled(released: threading.Event) -> tuple[int, Any]:
    """Answers only once it is released, or far too late."""
    released.wait(60)
    return 200, chat_reply("late")

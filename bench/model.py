"""The scripted model server that every path of the benchmark ends at: the same answer at once.

python bench/model.py PORT
"""

import json
import sys
from typing import Any

import uvicorn

WORDS = 40
USAGE = {"prompt_tokens": 9, "completion_tokens": WORDS, "total_tokens": 9 + WORDS}
HEAD = {"id": "chatcmpl-1", "created": 1, "model": "m"}


def plain() -> bytes:
    message = {"role": "assistant", "content": "word " * WORDS}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    reply = {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}
    return json.dumps(reply).encode()


def stream() -> list[bytes]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        data = {**HEAD, "object": "chat.completion.chunk", "choices": [choice]}
        return f"data: {json.dumps(data)}\n\n".encode()

    words = [chunk({"content": "word "}) for _ in range(WORDS)]
    return [chunk({"role": "assistant"}), *words, chunk({}, "stop"), b"data: [DONE]\n\n"]


PLAIN, STREAM = plain(), stream()


async def model(scope: Any, receive: Any, send: Any) -> None:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    asked = json.loads(body)
    streams = asked.get("stream")
    kind = b"text/event-stream" if streams else b"application/json"
    headers = [(b"content-type", kind)]
    if not streams:
        headers.append((b"content-length", str(len(PLAIN)).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for chunk in STREAM if streams else []:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"" if streams else PLAIN})


if __name__ == "__main__":
    uvicorn.run(model, port=int(sys.argv[1]), log_config=None, access_log=False, lifespan="off")

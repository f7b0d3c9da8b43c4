"""Models of other providers: `litellm/PROVIDER/MODEL` in a chat request goes through LiteLLM.

It is a transport like any other, so that streaming, recall and disconnects work as with a provider
over HTTP. Keys come from the environment, as LiteLLM reads them; the caller's goes nowhere.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from contextrender_bridge import wire
from contextrender_bridge.settings import set_for_library

PREFIX = "litellm/"
ORIGIN = "http://contextrender.litellm"

# Of a request only what the API has: LiteLLM's own options could name another address.
_FIELDS = frozenset(
    {
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
    }
)


def is_other(body: Mapping[str, Any]) -> bool:
    """Whether a request's model is another provider's."""
    model = body.get("model")
    return isinstance(model, str) and model.startswith(PREFIX)


class OtherProviders(httpx.AsyncBaseTransport):
    """Answers chat requests through LiteLLM."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The reply as the chat API has it."""
        body = wire.loads(await request.aread())
        options = {name: body[name] for name in body if name in _FIELDS}
        try:
            litellm = await asyncio.to_thread(_load)
        except ImportError:
            sentence = "Models of other providers need `pip install 'contextrender[server]'`."
            return _error(501, "not_installed", sentence)
        try:
            reply = await litellm.acompletion(model=body["model"][len(PREFIX) :], **options)
        except Exception as failure:
            status = getattr(failure, "status_code", None)
            if not isinstance(status, int) or not 400 <= status < 600:
                status = 502
            sentence = str(getattr(failure, "message", "")) or type(failure).__name__
            return _error(status, type(failure).__name__, sentence)
        if not body.get("stream"):
            return _whole(200, _json(reply))
        kind = {"content-type": "text/event-stream; charset=utf-8"}
        return httpx.Response(200, headers=kind, stream=_Chunks(reply))


class _Body(httpx.AsyncByteStream):
    """A whole reply, unread."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class _Chunks(httpx.AsyncByteStream):
    """A streamed reply as server-sent events."""

    def __init__(self, reply: Any) -> None:
        self._reply = reply

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._reply:
                yield b"data: " + _json(chunk) + b"\n\n"
        except Exception as failure:
            raise httpx.ReadError(type(failure).__name__) from failure
        yield b"data: [DONE]\n\n"

    async def aclose(self) -> None:
        close = getattr(self._reply, "aclose", None)
        if close is not None:
            await close()


def _load() -> Any:
    # Else it asks the network for a list of prices when it is imported.
    set_for_library("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    return importlib.import_module("litellm")


def _json(value: Any) -> bytes:
    text: str = value.model_dump_json(exclude_none=True)
    return text.encode()


def _error(status: int, code: str, message: str) -> httpx.Response:
    return _whole(status, wire.dumps({"error": {"type": code, "code": code, "message": message}}))


def _whole(status: int, body: bytes) -> httpx.Response:
    length = str(len(body))
    headers = {"content-type": "application/json", "content-length": length}
    return httpx.Response(status, headers=headers, stream=_Body(body))

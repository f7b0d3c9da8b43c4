"""Models of other providers: `litellm/PROVIDER/MODEL` in a chat request goes through LiteLLM.

They are connections like any other, so that streaming, recall and disconnects work as with a
provider over HTTP. Keys come from the environment, as LiteLLM reads them; the caller's goes
nowhere. What callers may name is in `provider_requests`.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from typing import Any

import httpx

from contextrender_bridge.base import wire
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_install
from contextrender_bridge.base.settings import Settings, set_for_library
from contextrender_bridge.proxy.connections import Connections, Content, OverHttp
from contextrender_bridge.proxy.headers import Headers
from contextrender_bridge.proxy.provider_requests import FIELDS, PREFIX

ORIGIN = "http://contextrender.litellm"


def new_connections(settings: Settings) -> Connections:
    """To providers over HTTP, and to others where the settings list any. Raises CommandError."""
    over_http = OverHttp(settings.provider_timeout)
    return OtherProviders(settings.provider_timeout, over_http) if settings.providers else over_http


class OtherProviders:
    """Answers chat requests to `ORIGIN` through LiteLLM."""

    def __init__(self, silence: float, over_http: Connections) -> None:
        """Imports LiteLLM, which takes seconds, now and not in a request. Raises CommandError.

        A provider may say nothing for `silence` seconds. All else goes `over_http`.
        """
        self._silence = silence
        self._over_http = over_http
        # Else it asks the network for a list of prices when it is imported.
        set_for_library("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        try:
            litellm: Any = importlib.import_module("litellm")
        except ImportError:
            raise CommandError(
                f"models of other providers need {how_to_install('models')}."
            ) from None
        litellm.suppress_debug_info = True
        # The first call imports as much again; this one asks nobody.
        asked = [{"role": "user", "content": "hello"}]
        litellm.completion(model="gpt-4o-mini", messages=asked, mock_response="hello")
        self._litellm = litellm

    async def close(self) -> None:
        """Gives back the connections over HTTP."""
        await self._over_http.close()

    async def ask(
        self, method: str, url: str, headers: Headers, content: Content
    ) -> httpx.Response:
        """The reply as the chat API has it."""
        if not url.startswith(ORIGIN) or not isinstance(content, bytes):
            return await self._over_http.ask(method, url, headers, content)
        body = wire.loads(content)
        options = {name: body[name] for name in body if name in FIELDS}
        asking = self._litellm.acompletion(
            model=body["model"][len(PREFIX) :], timeout=self._silence, **options
        )
        try:
            reply = await asyncio.wait_for(asking, self._silence)
        except TimeoutError as late:
            raise httpx.ReadTimeout("no reply in time") from late
        except Exception as failure:
            status = getattr(failure, "status_code", None)
            if not isinstance(status, int) or not 400 <= status < 600:
                status = 502
            sentence = str(getattr(failure, "message", "")) or type(failure).__name__
            return _error(status, type(failure).__name__, sentence)
        if not body.get("stream"):
            return _whole(200, _json(reply))
        kind = {"content-type": "text/event-stream; charset=utf-8"}
        return httpx.Response(200, headers=kind, stream=_Chunks(reply, self._silence))


class _Body(httpx.AsyncByteStream):
    """A whole reply, unread."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class _Chunks(httpx.AsyncByteStream):
    """A streamed reply as server-sent events."""

    def __init__(self, reply: Any, silence: float) -> None:
        self._reply = reply
        self._silence = silence

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = aiter(self._reply)
        try:
            while True:
                try:
                    chunk = await asyncio.wait_for(anext(chunks), self._silence)
                except StopAsyncIteration:
                    break
                yield b"data: " + _json(chunk) + b"\n\n"
        except Exception as failure:
            raise httpx.ReadError(type(failure).__name__) from failure
        yield b"data: [DONE]\n\n"

    async def aclose(self) -> None:
        close = getattr(self._reply, "aclose", None)
        if close is not None:
            await close()


def _json(value: Any) -> bytes:
    text: str = value.model_dump_json(exclude_none=True)
    return text.encode()


def _error(status: int, code: str, message: str) -> httpx.Response:
    return _whole(status, wire.dumps({"error": {"type": code, "code": code, "message": message}}))


def _whole(status: int, body: bytes) -> httpx.Response:
    length = str(len(body))
    headers = {"content-type": "application/json", "content-length": length}
    return httpx.Response(status, headers=headers, stream=_Body(body))

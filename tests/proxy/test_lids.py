"""Limits on request bodies in one process of the proxy or of `wrap`."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.proxy.app import Proxy, trust_everybody
from contextrender_bridge.request_guards import BodyLimits, Guard
from contextrender_bridge.wrap.provider_routes import ProviderRoutes
from contextrender_bridge.wrap.proxy_listener import ProxyListener
from contextrender_bridge.wrap.run_totals import TotalsCollector

from tests.proxy.conftest import Start
from tests.support.codings import COMPRESS
from tests.support.scripted_model import Model, Reply, chat, json_reply, serving

CALLS = "/v1/chat/completions"
LARGE = {"model": "m", "messages": [{"role": "user", "content": "x" * 2**20}]}


def code(reply: httpx.Response) -> tuple[int, str]:
    error = reply.json()["error"]
    assert error["type"] == error["code"] and error["message"].endswith(".")
    return reply.status_code, error["code"]


def test_body_over_the_limit_is_refused(start: Start) -> None:
    setup = start(max_body_mb=1)
    assert code(setup.post(CALLS, LARGE)) == (413, "body_too_large")
    assert code(setup.post("/v1/compress", LARGE)) == (413, "body_too_large")
    assert not setup.model.requests


def test_other_requests_have_no_size_limit(start: Start) -> None:
    setup = start(max_body_mb=1)
    setup.model.script = [json_reply({"id": "file-1"})]
    assert setup.http.post("/v1/files", content=b"x" * 3 * 2**20).json() == {"id": "file-1"}
    assert len(setup.model.requests[0].body) == 3 * 2**20


def test_bodies_in_memory_are_limited(start: Start) -> None:
    """One user's bodies may total two times the limit while the model (a double) has not
    answered."""
    setup = start(max_body_mb=1)
    setup.model.script = [replace(json_reply(chat("ok")), pause=2.0) for _ in range(6)]
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 900_000}]}
    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda _: setup.post(CALLS, body), range(6)))
    refusals = [reply for reply in replies if reply.status_code == 503]
    assert {code(reply) for reply in refusals} == {(503, "too_many_bytes_in_flight")}
    assert all(reply.headers["retry-after"] == "1" for reply in refusals)
    assert 4 <= len(refusals) < 6
    assert setup.post(CALLS, body).status_code == 200


@contextmanager
def serve_listener(model: Model, totals: TotalsCollector) -> Iterator[str]:
    """Run `wrap`'s listener without a service; yield the provider's address for the agent."""
    with serving(model, lifespan="off") as provider:
        upstream = f"{provider}/v1"
        settings = Settings(max_body_mb=1, upstream=upstream, anthropic_upstream=upstream)
        routes = ProviderRoutes("http://127.0.0.1:9", upstreams={"0": upstream})
        nowhere = AsyncContextRender("http://127.0.0.1:9", "t", retries=0)
        proxies = {"0": Proxy(settings, nowhere, trust_everybody)}
        listener = ProxyListener(routes, proxies, totals, lambda _: False, BodyLimits(settings))
        with serving(Guard(listener)) as url:
            yield f"{url}/w/{routes.secret}/0/chat/completions"


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_wrapped_agents_encodings_are_forwarded_and_compressed_usage_is_counted(
    coding: str,
) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 4}
    reply = json.dumps({**chat("ok"), "model": "gpt-4o", "usage": usage}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-encoding", coding.encode())]
    model, totals = Model(), TotalsCollector()
    with serve_listener(model, totals) as place:
        for encodings in (f"{coding};q=0.9, identity", None):
            model.script = [Reply([COMPRESS[coding](reply)], 200, headers)]
            fields = {"accept-encoding": encodings} if encodings else {}
            with httpx.Client() as http:
                del http.headers["accept-encoding"]
                body = {"model": "m", "messages": []}
                assert http.post(place, json=body, headers=fields).content == reply
            assert model.requests[-1].header("accept-encoding") == encodings
    assert (totals.totals.calls, totals.totals.calls_without_usage) == (2, 0)


@pytest.mark.parametrize(
    "path", ["chat/completions", "v1/compact", "s/a/v1/compress", "retrieve/x"]
)
def test_each_body_that_is_read_is_limited_for_wrapped_agent(path: str) -> None:
    with serve_listener(Model(), TotalsCollector()) as place:
        address = place.replace("chat/completions", path)
        assert code(httpx.post(address, json={**LARGE, "a": "x" * 2**20})) == (
            413,
            "body_too_large",
        )


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_decompressed_body_is_limited_for_wrapped_agent(coding: str) -> None:
    text = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 2**21}]})
    pack = COMPRESS[coding]
    model = Model()
    with serve_listener(model, TotalsCollector()) as place:
        headers = {"content-encoding": coding}
        content = pack(text.encode())
        assert len(content) < 20_000
        refusal = httpx.post(place, content=content, headers=headers)
        assert code(refusal) == (413, "body_too_large")
        assert not model.requests
        model.script = [json_reply(chat("ok"))]
        small = pack(json.dumps({"model": "m", "messages": []}).encode())
        assert httpx.post(place, content=small, headers=headers).json() == chat("ok")

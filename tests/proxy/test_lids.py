"""Limits on request bodies in one process of the proxy or of `wrap`."""

import gzip
import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.body_limits import BodyLimits
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.proxy.app import Proxy, trust_everybody
from contextrender_bridge.request_guards import Guard
from contextrender_bridge.wrap.provider_routes import ProviderRoutes
from contextrender_bridge.wrap.proxy_listener import ProxyListener
from contextrender_bridge.wrap.run_totals import TotalsCollector

from tests.proxy.conftest import Start
from tests.support.scripted_model import Model, chat, serving, whole

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
    assert not setup.model.asked


def test_other_requests_have_no_size_limit(start: Start) -> None:
    setup = start(max_body_mb=1)
    setup.model.script = [whole({"id": "file-1"})]
    reply = setup.http.post("/v1/files", content=b"x" * 3 * 2**20)
    assert reply.json() == {"id": "file-1"}
    assert len(setup.model.asked[0].body) == 3 * 2**20


def test_bodies_in_memory_are_limited(start: Start) -> None:
    """One user's bodies may total two times the limit while the model (a double) has not
    answered."""
    setup = start(max_body_mb=1)
    setup.model.script = [replace(whole(chat("ok")), pause=2.0) for _ in range(6)]
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 900_000}]}
    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda _: setup.post(CALLS, body), range(6)))
    refused = [reply for reply in replies if reply.status_code == 503]
    assert {code(reply) for reply in refused} == {(503, "too_many_bytes_in_flight")}
    assert all(reply.headers["retry-after"] == "1" for reply in refused)
    assert 4 <= len(refused) < 6
    assert setup.post(CALLS, body).status_code == 200


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_decompressed_body_is_limited_for_wrapped_agent(coding: str) -> None:
    text = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 2**21}]})
    pack: Any = gzip.compress if coding == "gzip" else zlib.compress
    settings = Settings(max_body_mb=1, upstream="http://127.0.0.1:9/v1")
    model = Model()
    with serving(model, lifespan="off") as provider:
        routes = ProviderRoutes("http://127.0.0.1:9", upstreams={"0": f"{provider}/v1"})
        upstream = f"{provider}/v1"
        nowhere = AsyncContextRender("http://127.0.0.1:9", "t", retries=0)
        own = Settings(max_body_mb=1, upstream=upstream, anthropic_upstream=upstream)
        proxies = {"0": Proxy(own, nowhere, trust_everybody)}
        listener = ProxyListener(
            routes, proxies, TotalsCollector(), lambda _: False, BodyLimits(settings)
        )
        with serving(Guard(listener)) as url:
            place = f"{url}/w/{routes.secret}/0/chat/completions"
            headers = {"content-encoding": coding}
            packed = pack(text.encode())
            assert len(packed) < 20_000
            assert code(httpx.post(place, content=packed, headers=headers)) == (
                413,
                "body_too_large",
            )
            assert not model.asked
            model.script = [whole(chat("ok"))]
            small = pack(json.dumps({"model": "m", "messages": []}).encode())
            assert httpx.post(place, content=small, headers=headers).json() == chat("ok")

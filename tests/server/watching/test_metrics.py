"""`GET /metrics`, as Prometheus reads it."""

import re

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.server.servers import Server


def figures(client: httpx.Client) -> dict[tuple[str, ...], float]:
    page = client.get("/metrics")
    assert page.status_code == 200
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(page.text)
        for sample in family.samples
    }


def test_calls_are_counted_and_timed(client: httpx.Client) -> None:
    before = figures(client)
    assert client.post("/walker/echo", json={"messages": []}).status_code == 200
    assert client.post("/walker/echo", json={}).status_code == 422
    assert client.post("/walker/made_up_by_a_stranger", json={}).status_code == 404
    after = figures(client)

    def more(*key: str) -> float:
        return after[key] - before.get(key, 0)

    assert more("contextrender_calls_total", "", "echo", "200") == 1
    assert more("contextrender_calls_total", "", "echo", "422") == 1
    assert more("contextrender_calls_total", "", "unknown", "404") == 1
    assert more("contextrender_call_seconds_count", "", "echo") == 2
    assert after[("contextrender_stored_bytes",)] > 0
    assert not [name for name in after if "stranger" in str(name)]


def test_it_tells_no_contents(client: httpx.Client, server: Server) -> None:
    client.post("/walker/echo", json={"messages": [{"a": "sk-secret-in-a-message"}]})
    assert not re.search("secret|local", client.get("/metrics").text)

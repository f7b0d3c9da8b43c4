"""`GET /metrics`, as Prometheus reads it."""

import re
import socket
from pathlib import Path

import httpx
import pytest
from contextrender_bridge.client.credentials import load_credentials
from prometheus_client.parser import text_string_to_metric_families

from tests.server.servers import Server, served


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


@pytest.mark.slow
def test_elsewhere_figures_and_readiness_need_the_right(tmp_path: Path) -> None:
    """A server that other machines reach, asked at an address that is not loopback."""
    if (address := own_address()) is None:
        pytest.skip("this machine has no address but loopback")
    data = tmp_path / "data"
    never = str(10**9)
    with served(data, "--host", "0.0.0.0", CONTEXTRENDER_MIN_FREE_MB=never) as server:
        url = f"http://{address}:{httpx.URL(server.url).port}"
        own = {"authorization": f"Bearer {load_credentials(data).token}"}
        other = {"authorization": f"Bearer {server.add_user('other')}"}
        for headers in ({}, other, {"authorization": "Bearer made-up"}):
            assert httpx.get(f"{url}/metrics", headers=headers).status_code == 401
            told = httpx.get(f"{url}/healthz/ready", headers=headers).json()["error"]
            assert told["message"] == "The server is not ready."
        assert "contextrender_calls_total" in httpx.get(f"{url}/metrics", headers=own).text
        told = httpx.get(f"{url}/healthz/ready", headers=own).json()["error"]
        assert "MIN_FREE_MB" in told["message"]


def own_address() -> str | None:
    """An address of this machine that is not loopback; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") else address

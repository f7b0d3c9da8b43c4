"""`GET /metrics`, as Prometheus reads it."""

import json
import re
from typing import Any

import httpx
import pytest
from contextrender_bridge.server.metrics import Metrics, is_of_this_machine
from prometheus_client.parser import text_string_to_metric_families

from graph.runtime.sqlite import SqliteStore
from tests.server.servers import REPOSITORY, Server


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

    assert more("contextrender_calls_total", "echo", "200") == 1
    assert more("contextrender_calls_total", "echo", "422") == 1
    assert more("contextrender_calls_total", "unknown", "404") == 1
    assert more("contextrender_call_seconds_count", "echo") == 2
    assert after[("contextrender_stored_bytes",)] > 0
    assert not [name for name in after if "stranger" in str(name)]


def test_it_tells_no_contents(client: httpx.Client, server: Server) -> None:
    client.post("/walker/echo", json={"messages": [{"a": "sk-secret-in-a-message"}]})
    assert not re.search("secret|local", client.get("/metrics").text)


@pytest.mark.parametrize(
    ("client", "own"),
    [(("127.0.0.1", 1), True), (("::1", 1), True), (("10.0.0.1", 1), False), (None, False)],
)
def test_it_knows_this_machines_programs(client: Any, own: bool) -> None:
    assert is_of_this_machine({"client": client}) is own


def test_tokens_are_counted_by_policy(tmp_path: Any) -> None:
    class Tokens:
        before, after = 900, 300

    class View:
        policy, tokens = "prune", Tokens

    metrics = Metrics(SqliteStore(tmp_path / "store.db"), tmp_path, ["render"])
    metrics.rendered("render", [View, View])
    metrics.rendered("sync", [object()])
    page = metrics.page().decode()
    assert 'contextrender_render_tokens_total{policy="prune",side="before"} 1800.0' in page
    assert 'contextrender_render_tokens_total{policy="prune",side="after"} 600.0' in page


def test_the_dashboard_asks_for_what_there_is(tmp_path: Any) -> None:
    metrics = Metrics(SqliteStore(tmp_path / "store.db"), tmp_path, ["render"])
    families = text_string_to_metric_families(metrics.page().decode())
    told = {family.name + end for family in families for end in ("", "_total", "_bucket")}
    labels = {"route", "status", "le", "side", "policy", "why"}
    board = json.loads((REPOSITORY / "deploy" / "grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(queries) >= 10
    for query in queries:
        names = re.findall(r"contextrender_\w+", query)
        assert names and set(names) <= told, query
        asked = re.findall(r"by \(([^)]*)\)", query) + re.findall(r"(\w+)=", query)
        assert {name.strip() for one in asked for name in one.split(",")} <= labels, query

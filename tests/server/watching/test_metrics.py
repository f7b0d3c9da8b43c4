"""`GET /metrics`, and the dashboard and documentation that name every metric."""

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.server.watching import metrics
from contextrender_bridge.store.writes import StoreUnavailable, WriteBatch, WriteConflict
from prometheus_client.parser import text_string_to_metric_families

from tests.server.servers import REPOSITORY, Server, ServiceInProcess, ask, in_process


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


def test_metrics_have_no_contents(client: httpx.Client, server: Server) -> None:
    client.post("/walker/echo", json={"messages": [{"a": "sk-secret-in-a-message"}]})
    assert not re.search("secret|local", client.get("/metrics").text)


BOARD = REPOSITORY / "deploy" / "grafana.json"
PAGE = REPOSITORY / "docs" / "operations.md"
RENDER_SETTINGS: Json = {"model": "gpt-4o", "policy": "prune"}
HISTORY = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "Gone."}]

Names = dict[str, set[str]]
"""Label names by metric name."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceInProcess]:
    """Start a service with rendered calls; count deletions and failures by hand."""
    with in_process(tmp_path_factory.mktemp("dashboard") / "data") as service:
        for messages in (HISTORY[:1], HISTORY):
            assert post(service, "render", session="s", messages=messages, **RENDER_SETTINGS) == 200
        metrics = service.app.state.service.metrics
        metrics.deletions.labels("age").inc()
        metrics.fail_open.labels("late").inc()
        yield service


def post(service: ServiceInProcess, walker: str, **fields: Any) -> int:
    path = f"/walker/{walker}"
    return ask(service.app, "POST", path, service.token, json=fields).status_code


def page(service: ServiceInProcess) -> str:
    content: bytes = service.app.state.service.metrics.page()
    return content.decode()


@pytest.fixture(scope="module")
def served_metrics(service: ServiceInProcess) -> Names:
    """Return every served metric with its labels, without the library's `_created` times."""
    labels_of_metrics: Names = defaultdict(set)
    for family in text_string_to_metric_families(page(service)):
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                labels_of_metrics[re.sub("_(bucket|sum|count)$", "", sample.name)] |= set(
                    sample.labels
                )
    return dict(labels_of_metrics)


def queries() -> list[str]:
    board = json.loads(BOARD.read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def metric_names(query: str) -> tuple[str, ...]:
    names = re.findall(r"contextrender_\w+", query)
    return tuple(re.sub("_(bucket|sum|count)$", "", name) for name in names)


def test_dashboard_shows_exactly_the_served_metrics(served_metrics: Names) -> None:
    assert {name for query in queries() for name in metric_names(query)} == set(served_metrics)


def test_dashboard_uses_existing_labels(served_metrics: Names) -> None:
    for query in queries():
        labels = set.union(*(served_metrics[name] for name in metric_names(query)))
        grouped = re.findall(r"by \(([^)]*)\)", query)
        used_labels = {name.strip() for group in grouped for name in group.split(",")}
        used_labels |= set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", query))
        assert used_labels <= labels, query


def test_documentation_lists_every_metric_with_labels(served_metrics: Names) -> None:
    rows = re.findall(r"^- `(contextrender_\w+)(?:\{([^}]*)\})?`:", PAGE.read_text(), re.M)
    documented_metrics = {
        name: set(labels.split(", ")) if labels else set() for name, labels in rows
    }
    assert documented_metrics == {name: labels - {"le"} for name, labels in served_metrics.items()}


def test_calls_are_counted_by_policy(service: ServiceInProcess) -> None:
    early = {"output": "plan", "answer_before_commit": True}
    assert post(service, "render", session="s", messages=HISTORY, policy="acon") == 422
    assert post(service, "render", session="e", messages=HISTORY, policy="full", **early) == 200
    assert post(service, "inspect_session", session="s") == 200
    calls = dict(re.findall(r"^contextrender_calls_total\{(.*)\} (.*)$", page(service), re.M))
    assert calls['policy="prune",route="render",status="200"'] == "2.0"
    assert calls['policy="full",route="render",status="200"'] == "1.0"
    assert calls['policy="",route="render",status="422"'] == "1.0"
    assert calls['policy="",route="inspect_session",status="200"'] == "1.0"


def test_conflicts_and_refused_writes_are_counted(
    service: ServiceInProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another write overtakes the first attempt; the store refuses the repeated attempt."""
    queue = service.app.state.service.runtime.store._queue
    write, failures = queue.write, [WriteConflict(), StoreUnavailable("full")]

    def fail_twice(batch: WriteBatch) -> None:
        if failures:
            raise failures.pop(0)
        write(batch)

    def counts() -> list[float]:
        names = ("conflicts_total", "commit_failures_total")
        values = [
            re.findall(rf"^contextrender_{name} (.*)$", page(service), re.M) for name in names
        ]
        return [float(value) for (value,) in values]

    monkeypatch.setattr(queue, "write", fail_twice)
    before = counts()
    assert post(service, "sync", session="overtaken", messages=HISTORY) == 503
    assert [after - count for count, after in zip(before, counts(), strict=True)] == [1, 1]
    assert post(service, "sync", session="overtaken", messages=HISTORY) == 200


def test_metrics_work_without_store(
    service: ServiceInProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A double makes every read of the store fail."""

    def fail(*_: object) -> None:
        raise StoreUnavailable("gone")

    store = service.app.state.service.runtime.store
    with monkeypatch.context() as patch:
        patch.setattr(store, "read", fail)
        patch.setattr(store, "size", fail)
        patch.setattr("contextrender_bridge.server.watching.metrics.CACHE_SECONDS", -1.0)
        output = page(service)
    assert 'contextrender_stored_calls{delivery="rendered",model="gpt-4o"' in output
    assert not re.search("^contextrender_stored_bytes ", output, re.M)


def test_stored_calls_are_read_once_a_minute(
    service: ServiceInProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic() + metrics.CACHE_SECONDS
    monkeypatch.setattr(metrics, "time", SimpleNamespace(monotonic=lambda: now))

    def stored_calls() -> float:
        counts = re.findall(r"^contextrender_stored_calls{.*} (.*)$", page(service), re.M)
        return sum(map(float, counts))

    before = stored_calls()
    for messages in (HISTORY[:1], HISTORY):
        assert (
            post(service, "render", session="minute", messages=messages, **RENDER_SETTINGS) == 200
        )
    now += 59
    assert stored_calls() == before
    now += 1
    assert stored_calls() == before + 1

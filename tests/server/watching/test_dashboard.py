"""The dashboard and the documentation name all metrics that are served, and no others."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.in_process import Embedded, embedded
from prometheus_client.parser import text_string_to_metric_families

from graph.store.writes import StoreUnavailable
from tests.server.servers import REPOSITORY, ask

BOARD = REPOSITORY / "deploy" / "grafana.json"
PAGE = REPOSITORY / "docs" / "operations.md"
ASKED: Json = {"model": "gpt-4o", "policy": "prune"}
HISTORY = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "Gone."}]

Names = dict[str, set[str]]
"""Labels by the name of a metric, as it is asked for."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A service that has rendered calls; what does not happen here is counted by hand."""
    with embedded(tmp_path_factory.mktemp("dashboard") / "data") as service:
        for messages in (HISTORY[:1], HISTORY):
            assert post(service, "render", session="s", messages=messages, **ASKED) == 200
        metrics = service.app.state.service.metrics
        metrics.collections.labels("age").inc()
        metrics.fail_open.labels("late").inc()
        yield service


def post(service: Embedded, walker: str, **fields: Any) -> int:
    path = f"/walker/{walker}"
    return ask(service.app, "POST", path, service.token, json=fields).status_code


def page(service: Embedded) -> str:
    found: bytes = service.app.state.service.metrics.page()
    return found.decode()


@pytest.fixture(scope="module")
def served(service: Embedded) -> Names:
    """Every metric; when each began to be counted is the library's own."""
    found: Names = defaultdict(set)
    for family in text_string_to_metric_families(page(service)):
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                found[re.sub("_(bucket|sum|count)$", "", sample.name)] |= set(sample.labels)
    return dict(found)


def queries() -> list[str]:
    board = json.loads(BOARD.read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def asked_for(query: str) -> tuple[str, ...]:
    names = re.findall(r"contextrender_\w+", query)
    return tuple(re.sub("_(bucket|sum|count)$", "", name) for name in names)


def test_the_dashboard_shows_every_metric_that_is_served_and_no_other(served: Names) -> None:
    assert {name for query in queries() for name in asked_for(query)} == set(served)


def test_the_dashboard_asks_for_labels_that_there_are(served: Names) -> None:
    for query in queries():
        labels = set.union(*(served[name] for name in asked_for(query)))
        grouped = re.findall(r"by \(([^)]*)\)", query)
        wanted = {name.strip() for group in grouped for name in group.split(",")}
        wanted |= set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", query))
        assert wanted <= labels, query


def test_the_page_has_a_row_for_every_metric_with_its_labels(served: Names) -> None:
    rows = re.findall(r"^\| `(contextrender_\w+)(?:\{([^}]*)\})?` \|", PAGE.read_text(), re.M)
    told = {name: set(labels.split(", ")) if labels else set() for name, labels in rows}
    assert told == {name: labels - {"le"} for name, labels in served.items()}


def test_calls_are_told_by_the_policy_that_rendered_them(service: Embedded) -> None:
    early = {"want": "plan", "early": True}
    assert post(service, "render", session="s", messages=HISTORY, policy="recency_summary") == 422
    assert post(service, "render", session="e", messages=HISTORY, policy="full", **early) == 200
    assert post(service, "inspect_session", session="s") == 200
    calls = dict(re.findall(r"^contextrender_calls_total\{(.*)\} (.*)$", page(service), re.M))
    assert calls['policy="prune",route="render",status="200"'] == "2.0"
    assert calls['policy="full",route="render",status="200"'] == "1.0"
    assert calls['policy="",route="render",status="422"'] == "1.0"
    assert calls['policy="",route="inspect_session",status="200"'] == "1.0"


def test_without_a_store_the_rest_is_told(
    service: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's reads are a double that fails."""

    def fail(*_: object) -> None:
        raise StoreUnavailable("gone")

    store = service.app.state.service.runtime.store
    with monkeypatch.context() as patch:
        patch.setattr(store, "read", fail)
        patch.setattr(store, "size", fail)
        patch.setattr("contextrender_bridge.server.watching.metrics.COUNTED_SECONDS", -1.0)
        told = page(service)
    assert 'contextrender_stored_calls{model="gpt-4o"' in told
    assert not re.search("^contextrender_stored_bytes ", told, re.M)

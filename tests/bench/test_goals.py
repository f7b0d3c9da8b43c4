"""Benchmarks tell which goals a run has missed, and end with 1."""

from typing import Any

import pytest

from bench import latency, load, proxy, scale
from bench.figures import Goal, told

LOAD: dict[str, Any] = {
    "load": {
        "agents": 32,
        "errors": {},
        "p50_ms": 10.0,
        "p99_ms": 15.0,
        "cpu_ms": 4.0,
        "calls_per_second": 250.0,
    },
    "memory": {"limit_mb": 64, "warm_mb": 350.0, "end_mb": 360.0},
    "console": {"slower": 1.1, "own_slower": 1.1},
}


def missed(goals: list[Goal]) -> list[str]:
    return [goal.what for goal in goals if not goal.met]


@pytest.mark.parametrize(
    ("part", "other", "what"),
    [
        ("load", {}, []),
        ("load", {"errors": {"503": 1}}, ["32 agents: errors"]),
        ("load", {"p99_ms": 15.1}, ["32 agents: p99 / p50"]),
        ("load", {"cpu_ms": 4.1}, ["32 agents: ms of processor a call"]),
        ("load", {"calls_per_second": 249.0}, ["32 agents: calls a second"]),
        ("memory", {"end_mb": 365.0, "warm_mb": 365.0}, ["memory above the limit, MB"]),
        ("memory", {"warm_mb": 300.0}, ["memory after the warm-up, times"]),
        ("console", {"slower": 1.2}, ["console at another session: renders, times"]),
    ],
)
def test_load(part: str, other: dict[str, Any], what: list[str]) -> None:
    assert missed(load.goals_of({**LOAD, part: {**LOAD[part], **other}})) == what


@pytest.mark.parametrize(
    ("added", "cpu", "count"), [(5.0, 10.0, 0), (5.2, 10.0, 1), (5.2, 11.0, 2)]
)
def test_proxy(added: float, cpu: float, count: int) -> None:
    rows = {
        proxy.IN_SERVICE: {"added_p50": added, "cpu_per_call": cpu},
        proxy.IN_SERVICE_BYPASS: {"added_p50": 2.0, "cpu_per_call": 4.0},
    }
    assert len(missed(proxy.goals_of({"latency_ms": {"100 messages, plain": rows}}))) == count


def test_scale() -> None:
    rows = [
        {"store": "sqlite", "workers": workers, "agents": 32, "calls_per_second": calls}
        for workers, calls in ((1, 100.0), (2, 169.0), (4, 100.0))
    ]
    assert missed(scale.goals_of(rows)) == ["sqlite, 32 agents: two processes, times one"]


def test_latency() -> None:
    row = {"results": 500, "p50": 4.0, "p99": 8.0, "floor": 1.0}
    report: dict[str, Any] = {
        "in process": [row],
        "over HTTP": [{**row, "p50": 5.0}],
        "beside": [{"name": "langchain trim_messages", "results": 500, "ms": 80.0}],
        "cold": 40.0,
        "memory_bytes": 1e7,
        "client": {50: 0.5, 5_000: 1.0},
    }
    assert missed(latency.goals_of(report)) == []
    slower = {**report, "beside": [{**report["beside"][0], "ms": 79.0}], "client": {50: 1.1}}
    assert missed(latency.goals_of(slower)) == [
        "the client's own part, 50 results, ms",
        "trim_messages, renders",
    ]


def test_the_exit_code_is_1_where_one_is_missed_or_none_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert told([Goal("a", 1, 2), Goal("b", 2, 2, least=True)]) == 0
    assert told([Goal("a", 1, 2), Goal("c", 2.5, 2)]) == 1
    assert "MISSED c: 2.50, goal at most 2" in capsys.readouterr().out
    assert told([]) == 1

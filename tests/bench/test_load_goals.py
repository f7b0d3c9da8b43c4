"""The load benchmark tells which goals a run has missed."""

import runpy
from pathlib import Path
from typing import Any

import pytest

GOALS = Path(__file__).resolve().parents[2] / "bench" / "load" / "goals.py"
unmet = runpy.run_path(str(GOALS))["unmet"]


def report(**other: Any) -> dict[str, Any]:
    load: dict[str, Any] = {
        "agents": 32,
        "errors": {},
        "p50_ms": 10.0,
        "p99_ms": 50.0,
        "cpu_ms": 4.0,
        "calls_per_second": 250.0,
    }
    made: dict[str, dict[str, Any]] = {
        "load": load,
        "memory": {"limit_mb": 64, "warm_mb": 350.0, "end_mb": 360.0},
        "console": {"slower": 1.1, "own_slower": 1.1},
    }
    for name, value in other.items():
        part = next(rows for rows in made.values() if name in rows)
        part[name] = value
    return made


@pytest.mark.parametrize(
    ("made", "missed"),
    [
        (report(), []),
        (report(errors={"503": 1}), ["32 agents: errors {'503': 1}"]),
        (report(p99_ms=51.0), ["32 agents: p99 is 5.1 x p50, goal 5"]),
        (report(cpu_ms=4.1), ["32 agents: 4.1 ms of processor a call, goal 4"]),
        (report(calls_per_second=249.0), ["32 agents: 249 calls a second, goal 250"]),
        (report(end_mb=365.0, warm_mb=365.0), ["memory: 301 MB above the limit, goal 300"]),
        (report(warm_mb=300.0), ["memory: grew to 1.20 of what it was, goal 1.05"]),
        (report(slower=1.2), ["console at another session: renders take 1.20 x, goal 1.1"]),
        (
            report(own_slower=1.3),
            ["console at the agent's own session: renders take 1.30 x, goal 1.1"],
        ),
    ],
)
def test_a_missed_goal_is_told(made: dict[str, Any], missed: list[str]) -> None:
    assert unmet(made) == missed

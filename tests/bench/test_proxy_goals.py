"""The proxy's benchmark tells which goals a run has missed."""

import runpy
from pathlib import Path
from typing import Any

import pytest

GOALS = Path(__file__).resolve().parents[2] / "bench" / "proxy" / "goals.py"
unmet = runpy.run_path(str(GOALS))["unmet"]


def report(added: float, rate: float, size: int = 100) -> dict[str, Any]:
    rows = {"in jac serve": {"added_p50": added}}
    return {
        "latency_ms": {f"{size} messages, plain": rows},
        "requests_per_second": {"in jac serve": rate},
    }


@pytest.mark.parametrize(
    ("made", "missed"),
    [
        (report(5.0, 150.0), []),
        (report(5.2, 150.0), ["100 messages, plain: 5.2 ms are added, goal 5"]),
        (report(1.0, 122.0), ["8 agents at once: 122 calls a second, goal 150"]),
        (report(1.0, 150.0, 1000), ["100 messages: not measured"]),
    ],
)
def test_a_missed_goal_is_told(made: dict[str, Any], missed: list[str]) -> None:
    assert unmet(made) == missed

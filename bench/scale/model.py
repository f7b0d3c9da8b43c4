"""From unit costs to whole fleets, on paper: nothing here was run at these sizes."""

from dataclasses import dataclass
from math import ceil
from typing import Any

SIZES = (1, 1_000, 100_000, 10_000_000)
CALLS_A_DAY = 500
"""Model calls of an agent; each records one result of 2 KB."""
RESULTS_A_SESSION = 50
PEAK = 3.0
"""The busiest hour beside the mean."""
BUSY = 0.6
"""Of a core, at the peak."""
LIVE_MINUTES = 60
"""How long a session is used."""
DATABASE_GB = 2_000
DATABASE_WRITES = 2_000
"""Of one primary: what it holds, and commits a second; beyond it, another shard by owner."""
CORE_HOUR, GB_HOUR, GB_MONTH = 0.04, 0.005, 0.12
"""Dollars: a core, a GB of memory, a GB of replicated disk (twice, with a backup)."""
HOURS, DAYS = 730, 30


@dataclass(frozen=True)
class Units:
    """What was measured: `bench/scale --json`."""

    cpu_ms: float
    bytes_a_result: float
    live_mb: float
    base_mb: float


def fleet(agents: int, units: Units) -> dict[str, Any]:
    """What so many agents need."""
    calls = agents * CALLS_A_DAY
    peak = calls / 86_400 * PEAK
    processes = max(1, ceil(peak * units.cpu_ms / 1000 / BUSY))
    live = agents * CALLS_A_DAY / RESULTS_A_SESSION * PEAK * LIVE_MINUTES / 1440
    memory = (processes * units.base_mb + max(live, 1) * units.live_mb) / 1024
    month = calls * DAYS * units.bytes_a_result / 2**30
    shards = max(1, ceil(month / DATABASE_GB), ceil(peak / DATABASE_WRITES))
    dollars = processes * HOURS * CORE_HOUR + memory * HOURS * GB_HOUR + month * GB_MONTH
    return {
        "agents": agents,
        "calls a second at the peak": peak,
        "processes": processes,
        "memory GB": memory,
        "storage GB a month": month,
        "databases": shards,
        "dollars a million calls": dollars / (calls * DAYS) * 1e6,
    }


def table(units: Units) -> list[str]:
    """Every size, as rows of Markdown."""
    fleets = [fleet(agents, units) for agents in SIZES]
    lines = ["| " + " | ".join(fleets[0]) + " |", "|" + "---:|" * len(fleets[0])]
    for row in fleets:
        cells = (f"{v:,}" if isinstance(v, int) else _short(v) for v in row.values())
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"

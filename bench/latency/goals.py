"""The goals of the design, and whether this run met them."""

from dataclasses import dataclass
from typing import Any

MEMORY_RESULTS = 1_000
COLD_RESULTS = 333
"""With three events a result and the opening, a session of 1,000 events."""


@dataclass(frozen=True)
class Goal:
    """A figure, and the most it may be."""

    what: str
    value: float
    most: float
    unit: str

    @property
    def met(self) -> bool:
        """Whether it is."""
        return self.value <= self.most

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**vars(self), "met": self.met}


def goals_of(report: dict[str, Any]) -> list[Goal]:
    """Those that what was measured can tell."""
    goals: list[Goal] = []
    limits = {("in_process", 500): 5, ("in_process", 5000): 40}
    limits |= {("http", 500): 15, ("http", 5000): 40}
    names = {"in_process": "in process", "http": "over HTTP"}
    for (place, results), most in limits.items():
        for calls in report.get(place, []):
            if calls["results"] == results:
                what = f"render {names[place]}, {results:,} results"
                render = calls["render"]
                goals.append(Goal(f"{what}, p50", render["p50"], most, "ms"))
                if results == 500:
                    ratio = render["p99"] / render["p50"]
                    goals.append(Goal(f"{what}, p99 / p50", ratio, 3, "x"))
    for cold in report.get("cold", []):
        if cold["results"] == COLD_RESULTS:
            what = f"cold start of a session of {cold['events']:,} events"
            goals.append(Goal(what, cold["cold"]["p50"], 100, "ms"))
    if held := report.get("working_set"):
        size = held["bytes"] / 1e6
        goals.append(Goal(f"memory of {held['results']:,} results", size, 10, "MB"))
    return goals

"""What the proxy must reach: what it adds to a call, and how many calls a second it carries."""

from typing import Any

MOST_ADDED_MS = 5.0
FEWEST_CALLS = 150.0
WAY = "in jac serve"


def unmet(report: dict[str, Any]) -> list[str]:
    """A sentence for each goal that a report of `bench/proxy` does not meet or did not measure."""
    found = []
    for name, rows in report["latency_ms"].items():
        added = rows[WAY]["added_p50"]
        if name.startswith("100 ") and added > MOST_ADDED_MS:
            found.append(f"{name}: {added:.1f} ms are added, goal {MOST_ADDED_MS:.0f}")
    if not any(name.startswith("100 ") for name in report["latency_ms"]):
        found.append("100 messages: not measured")
    rate = report["requests_per_second"][WAY]
    if rate < FEWEST_CALLS:
        found.append(f"8 agents at once: {rate:.0f} calls a second, goal {FEWEST_CALLS:.0f}")
    return found

"""What the service must carry, on two cores; ratios where the machine could matter."""

from typing import Any

WORST_TAIL = 5.0
MOST_CPU_MS = 4.0
FEWEST_CALLS = 250.0
MOST_ABOVE_LIMIT_MB = 300.0
MOST_GROWTH = 1.05
"""Of resident memory after the warm-up."""
MOST_BY_CONSOLE = 1.1


def unmet(report: dict[str, Any]) -> list[str]:
    """A sentence for each goal that a report of `bench/load` does not meet."""
    load, found = report["load"], []

    def need(met: bool, sentence: str) -> None:
        if not met:
            found.append(sentence)

    agents = f"{load['agents']} agents"
    need(not load["errors"], f"{agents}: errors {load['errors']}")
    tail = load["p99_ms"] / load["p50_ms"]
    need(tail <= WORST_TAIL, f"{agents}: p99 is {tail:.1f} x p50, goal {WORST_TAIL:.0f}")
    cpu = load["cpu_ms"]
    need(cpu <= MOST_CPU_MS, f"{agents}: {cpu:.1f} ms of processor a call, goal {MOST_CPU_MS:.0f}")
    rate = load["calls_per_second"]
    need(rate >= FEWEST_CALLS, f"{agents}: {rate:.0f} calls a second, goal {FEWEST_CALLS:.0f}")
    memory = report["memory"]
    above = memory["end_mb"] - memory["limit_mb"]
    most = MOST_ABOVE_LIMIT_MB
    need(above <= most, f"memory: {above:.0f} MB above the limit, goal {most:.0f}")
    growth = memory["end_mb"] / memory["warm_mb"]
    need(growth <= MOST_GROWTH, f"memory: grew to {growth:.2f} of what it was, goal {MOST_GROWTH}")
    for name, whose in (("slower", "another session"), ("own_slower", "the agent's own session")):
        slower = report["console"][name]
        sentence = f"console at {whose}: renders take {slower:.2f} x, goal {MOST_BY_CONSOLE}"
        need(slower <= MOST_BY_CONSOLE, sentence)
    return found

"""Measure a load without pauses: 32 agents, then a console that is in use, and processor time.

    python -m bench.load [--agents 32] [--seconds 15] [--workers 1]
    python -m bench.load --against CONTEXTRENDER_PIN_CPU=off

Each call of an agent records one tool call with its result of 2 KB and renders within 6,000 tokens.
Processor time is of the service's processes; the clients' share is printed, too. The exit code is 1
if a goal is not met. With --against only the load is measured, in turns with a second service that
has another setting, and the ratios of their figures are printed.
"""

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Mapping
from itertools import cycle
from typing import Any

from bench.agents import FIRST_RESULTS, Agent, Observations, Wire, measure_in_turns, run_agents
from bench.figures import Goal, print_goals
from bench.services import Service, running_service

WATCHED = 400
"""The number of results of the session that the console shows."""
LOOKS = ("timeline", "explain", "inspect_session", "savings")


async def measure_console(service: Service, seconds: float) -> dict[str, Any]:
    """Measure an agent's renders alone, and while the console is used without pauses.

    The console shows a long session of another agent, or the agent's own session.
    """
    console_wire = Wire(service.url, service.token)
    other_agent = Agent(console_wire, "watched", 1)
    await other_agent.begin()
    for _ in range(WATCHED - FIRST_RESULTS):
        await other_agent.call(Observations())
    agent = Agent(Wire(service.url, service.token), "beside", 2)
    await agent.begin()
    # By the agent whose session the console shows; None stands for no console.
    times_by_shown: dict[Agent | None, list[float]] = {None: [], other_agent: [], agent: []}
    reads = 0

    async def use_console(shown_agent: Agent, ended: asyncio.Event) -> None:
        nonlocal reads
        for look in cycle(LOOKS):
            if ended.is_set():
                return
            body = json.dumps({"session": shown_agent.session}).encode()
            status, answer = await console_wire.post(look, body, shown_agent.session)
            assert status == 200, answer[:200]
            reads += 1

    # In turns, so that noise affects all alike.
    for _ in range(4):
        for shown_agent, times in times_by_shown.items():
            ended = asyncio.Event()
            reader = asyncio.create_task(use_console(shown_agent, ended)) if shown_agent else None
            times += (await run_agents([agent], seconds / 8, Observations())).seconds
            ended.set()
            if reader is not None:
                await reader
    alone, beside, own_median = (
        statistics.median(times) * 1000 for times in times_by_shown.values()
    )
    medians = {"alone_ms": alone, "beside_ms": beside, "own_ms": own_median}
    return {**medians, "slower": beside / alone, "own_slower": own_median / alone, "reads": reads}


async def measure_load(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the load, and then a console that is in use."""
    with running_service(arguments.workers) as service:
        return {
            "load": (await measure_in_turns([service], arguments.agents, arguments.seconds))[0],
            "console": await measure_console(service, arguments.seconds),
        }


def compare_with(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the load with and without a setting of the environment, in turns.

    `times` has the ratio of each figure without the setting to the figure with it.
    """
    name, _, value = arguments.against.partition("=")
    with (
        running_service(arguments.workers) as service,
        running_service(arguments.workers, **{name: value}) as other_service,
    ):
        rows = asyncio.run(
            measure_in_turns([service, other_service], arguments.agents, arguments.seconds)
        )
    figures = ("calls_per_second", "p50_ms", "p99_ms", "cpu_ms")
    times = {figure: rows[0][figure] / rows[1][figure] for figure in figures}
    return {"load": rows[0], arguments.against: rows[1], "times": times}


def goals_of(report: Mapping[str, Any]) -> list[Goal]:
    """Return the goals on two cores. Ratios are used where the machine could matter."""
    load, console = report["load"], report["console"]
    agents = f"{load['agents']} agents"
    return [
        Goal(f"{agents}: errors", sum(load["errors"].values()), 0),
        Goal(f"{agents}: p99 / p50", load["p99_ms"] / load["p50_ms"], 1.5),
        Goal(f"{agents}: processor ms per call", load["cpu_ms"], 4),
        Goal(f"{agents}: calls per second", load["calls_per_second"], 250, is_minimum=True),
        Goal("console at another session: renders, ratio", console["slower"], 1.1),
        Goal("console at the agent's session: renders, ratio", console["own_slower"], 1.1),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--against", metavar="NAME=VALUE")
    arguments = parser.parse_args()
    report = compare_with(arguments) if arguments.against else asyncio.run(measure_load(arguments))
    for part, rows in report.items():
        figures = (f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in rows.items())
        print(f"{part:8} " + ", ".join(figures))
    return 0 if arguments.against else print_goals(goals_of(report))


if __name__ == "__main__":
    sys.exit(main())

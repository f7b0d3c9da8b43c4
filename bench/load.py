"""Load without pauses: 32 agents, then a watched console, and what it takes of the machine.

    python -m bench.load [--agents 32] [--seconds 15] [--workers 1]
    python -m bench.load --against CONTEXTRENDER_PIN_CPU=off

Each call of an agent records one tool call with its result of 2 KB and renders within 6,000 tokens.
Processor time is that of the service's processes; the share of those who ask is shown beside it.
The exit code is 1 when a goal is not met. With --against it is the load alone, in turns
with that of a service under another setting, and what this one's figures are of the other's.
"""

import argparse
import asyncio
import json
import statistics
import sys
from collections.abc import Mapping
from itertools import cycle
from typing import Any

from bench.agents import Agent, Seen, Wire, in_turns, worked
from bench.figures import Goal, told
from bench.services import Service, running

WATCHED = 400
"""Results of the session that the console shows."""
LOOKS = ("timeline", "explain", "inspect_session", "savings")


async def console(service: Service, seconds: float) -> dict[str, Any]:
    """An agent's renders alone, and beside somebody who looks without pauses: at a long session of
    another agent's, or at this one's own."""
    watched = Wire(service.url, service.token)
    long = Agent(watched, "watched", 1)
    await long.begin()
    for _ in range(WATCHED - 50):
        await long.call(Seen())
    agent = Agent(Wire(service.url, service.token), "beside", 2)
    await agent.begin()
    taken: dict[Agent | None, list[float]] = {None: [], long: [], agent: []}
    reads = 0

    async def read(looked_at: Agent, ended: asyncio.Event) -> None:
        nonlocal reads
        for look in cycle(LOOKS):
            if ended.is_set():
                return
            session = looked_at.session
            body = json.dumps({"session": session}).encode()
            status, answer = await watched.post(look, body, session)
            assert status == 200, answer[:200]
            reads += 1

    # In turns, so that the machine's moods hit all alike.
    for _ in range(4):
        for looked_at, times in taken.items():
            ended = asyncio.Event()
            reader = asyncio.create_task(read(looked_at, ended)) if looked_at else None
            times += (await worked([agent], seconds / 8, Seen())).seconds
            ended.set()
            if reader is not None:
                await reader
    alone, beside, own = (statistics.median(times) * 1000 for times in taken.values())
    medians = {"alone_ms": alone, "beside_ms": beside, "own_ms": own}
    return {**medians, "slower": beside / alone, "own_slower": own / alone, "reads": reads}


async def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    with running(arguments.workers) as service:
        return {
            "load": (await in_turns([service], arguments.agents, arguments.seconds))[0],
            "console": await console(service, arguments.seconds),
        }


def against(arguments: argparse.Namespace) -> dict[str, Any]:
    """The load, under a setting of the environment and without it."""
    name, _, value = arguments.against.partition("=")
    with running(arguments.workers) as ours, running(arguments.workers, **{name: value}) as other:
        rows = asyncio.run(in_turns([ours, other], arguments.agents, arguments.seconds))
    figures = ("calls_per_second", "p50_ms", "p99_ms", "cpu_ms")
    times = {figure: rows[0][figure] / rows[1][figure] for figure in figures}
    return {"load": rows[0], arguments.against: rows[1], "times": times}


def goals_of(report: Mapping[str, Any]) -> list[Goal]:
    """What the service must carry, on two cores; ratios where the machine could matter."""
    load, console = report["load"], report["console"]
    agents = f"{load['agents']} agents"
    return [
        Goal(f"{agents}: errors", sum(load["errors"].values()), 0),
        Goal(f"{agents}: p99 / p50", load["p99_ms"] / load["p50_ms"], 1.5),
        Goal(f"{agents}: ms of processor a call", load["cpu_ms"], 4),
        Goal(f"{agents}: calls a second", load["calls_per_second"], 250, least=True),
        Goal("console at another session: renders, times", console["slower"], 1.1),
        Goal("console at the agent's session: renders, times", console["own_slower"], 1.1),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--against", metavar="NAME=VALUE")
    arguments = parser.parse_args()
    report = against(arguments) if arguments.against else asyncio.run(measured(arguments))
    for part, rows in report.items():
        shown = (f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in rows.items())
        print(f"{part:8} " + ", ".join(shown))
    return 0 if arguments.against else told(goals_of(report))


if __name__ == "__main__":
    sys.exit(main())

"""Load without pauses: 32 agents, then a watched console, and what it takes of the machine.

    python bench/load [--agents 32] [--seconds 15] [--workers 1] [--json FILE]
    python bench/load --against CONTEXTRENDER_ONE_PROCESSOR=off

Each call of an agent records one tool call with its result of 2 KB and renders within 6,000 tokens.
Processor time is that of the service's processes; the share of those who ask is shown beside it.
The exit code is 1 when a goal (goals.py) is not met. With --against it is the load alone, in turns
with that of a service under another setting, and what this one's figures are of the other's.
"""

import argparse
import asyncio
import json
import statistics
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from agents import Agent, Seen, Wire, worked
from crowd import Crowd, in_turns
from goals import unmet
from service import Service, running

LIMIT_MB = 64
WATCHED = 400
"""Results of the session that the console shows."""
LOOKS = ("timeline", "explain", "inspect_session", "savings")


async def load(service: Service, count: int, seconds: float, name: str = "a") -> dict[str, Any]:
    """So many agents for so long, from sessions that are there already."""
    crowd = Crowd(service, count, name)
    await crowd.begin(min(2.0, seconds / 4))
    await crowd.work(seconds)
    crowd.close()
    made: dict[str, Any] = crowd.figures()
    return made


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
            times += (await worked([agent], seconds / 8)).seconds
            ended.set()
            if reader is not None:
                await reader
    alone, beside, own = (statistics.median(times) * 1000 for times in taken.values())
    medians = {"alone_ms": alone, "beside_ms": beside, "own_ms": own}
    return {**medians, "slower": beside / alone, "own_slower": own / alone, "reads": reads}


async def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    environment = {"CONTEXTRENDER_WORKING_SET_MB": str(LIMIT_MB)}
    with running(arguments.workers, **environment) as service:
        report: dict[str, Any] = {
            "load": await load(service, arguments.agents, arguments.seconds),
            "console": await console(service, arguments.seconds),
        }
        await load(service, arguments.agents, arguments.seconds / 2, "b")
        warm = service.resident_mb()
        await load(service, arguments.agents, arguments.seconds / 2, "c")
        report["memory"] = {
            "limit_mb": LIMIT_MB,
            "warm_mb": warm,
            "end_mb": service.resident_mb(),
        }
    return report


def against(arguments: argparse.Namespace) -> dict[str, Any]:
    """The load, under a setting of the environment and without it."""
    name, _, value = arguments.against.partition("=")
    with running(arguments.workers) as ours, running(arguments.workers, **{name: value}) as other:
        rows = asyncio.run(in_turns([ours, other], arguments.agents, arguments.seconds))
    figures = ("calls_per_second", "p50_ms", "p99_ms", "cpu_ms", "switches")
    times = {figure: rows[0][figure] / rows[1][figure] for figure in figures}
    return {"load": rows[0], arguments.against: rows[1], "times": times}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--against", metavar="NAME=VALUE")
    arguments = parser.parse_args()
    report = against(arguments) if arguments.against else asyncio.run(measured(arguments))
    for part, rows in report.items():
        shown = (f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in rows.items())
        print(f"{part:8} " + ", ".join(shown))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    if arguments.against:
        return 0
    missed = unmet(report)
    print("\n".join(f"MISSED   {sentence}" for sentence in missed) or "All goals are met.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

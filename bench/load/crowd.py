"""Agents at one service, and what they and it took while they worked; services in turns."""

import asyncio
import statistics
import time
from typing import Any

from agents import LONGEST, Agent, Seen, Wire, worked
from service import Service

TURNS = 4
READY = 12_800
"""Calls that all agents of a crowd have ready."""


class Crowd:
    """So many agents at a service, each with a connection and a session of its own."""

    def __init__(self, service: Service, count: int, name: str) -> None:
        self._service = service
        self._wires = [Wire(service.url, service.token) for _ in range(count)]
        ready = min(LONGEST, READY // count)
        self._agents = [
            Agent(wire, f"{name}-{n}", n, ready=ready) for n, wire in enumerate(self._wires)
        ]
        self._seen = Seen()
        self._seconds = self._cpu = self._own = 0.0
        self._switches = 0

    async def begin(self, warm: float) -> None:
        """Records what their sessions begin with, and lets them work so long uncounted."""
        await asyncio.gather(*(agent.begin() for agent in self._agents))
        await worked(self._agents, warm)

    async def work(self, seconds: float) -> None:
        """So long, counted with what was before."""
        cpu, own, begun = self._service.cpu_seconds(), time.process_time(), time.perf_counter()
        switches = self._service.switches()
        seen = await worked(self._agents, seconds)
        self._seconds += time.perf_counter() - begun
        self._cpu += self._service.cpu_seconds() - cpu
        self._own += time.process_time() - own
        self._switches += self._service.switches() - switches
        self._seen.add(seen)

    def figures(self) -> dict[str, Any]:
        """Of all that was counted; processor time is that of the service and of those who ask."""
        cuts = statistics.quantiles(self._seen.seconds, n=100, method="inclusive")
        count = len(self._seen.seconds)
        return {
            "agents": len(self._agents),
            "calls": count,
            "errors": self._seen.errors,
            "calls_per_second": count / self._seconds,
            "p50_ms": cuts[49] * 1000,
            "p95_ms": cuts[94] * 1000,
            "p99_ms": cuts[98] * 1000,
            "cpu_ms": self._cpu / count * 1000,
            "switches": self._switches / count,
            "asking_share": self._own / (self._own + self._cpu),
            "cores_used": (self._own + self._cpu) / self._seconds,
        }

    def close(self) -> None:
        """Closes the connections."""
        for wire in self._wires:
            wire.close()


async def in_turns(services: list[Service], agents: int, seconds: float) -> list[dict[str, Any]]:
    """Each service's figures. They take turns, so that the machine's moods hit all alike."""
    crowds = [Crowd(one, agents, f"{n}-{agents}") for n, one in enumerate(services)]
    await asyncio.gather(*(crowd.begin(min(2.0, seconds / 4)) for crowd in crowds))
    for turn in range(TURNS):
        for crowd in crowds[:: 1 if turn % 2 else -1]:
            await crowd.work(seconds / TURNS)
    for crowd in crowds:
        crowd.close()
    return [crowd.figures() for crowd in crowds]

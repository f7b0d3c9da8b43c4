"""Agents that call without pauses, each with one connection and one session.

Requests are prepared beforehand and written to plain sockets, so that the clients take little of
the machine.
"""

import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from contextrender_bridge.base.wire import Json

from bench.sample import Sample
from bench.services import Service

FIRST_RESULTS = 50
"""The number of results that a session has before it is timed."""
BUDGET = 6_000
MAX_CALLS = 400
"""The number of prepared calls of an agent. After them it begins another session."""
TURNS = 4
CROWD_CALLS = 12_800
"""The number of prepared calls of all agents of a crowd together."""


@cache  # preparing the calls of 128 agents takes a minute
def prepared_calls(seed: int, calls: int) -> tuple[Sequence[Json], Sequence[bytes]]:
    """Return a session's first messages, and the new messages of each call as JSON."""
    sample = Sample(seed)
    first = sample.run(FIRST_RESULTS)
    return first, [json.dumps(sample.turn()).encode() for _ in range(calls)]


@dataclass
class Observations:
    """Measurements of agents: the seconds of each call, and counts of errors by message."""

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)


class Wire:
    """A connection for one request at a time."""

    def __init__(self, url: str, token: str) -> None:
        self._place = urlsplit(url)
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, walker: str, body: bytes, session: str) -> tuple[int, bytes]:
        """Call a walker with this body. Return the status and the body of the reply."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._place.hostname, self._place.port)
        reader, writer = self._streams
        writer.write(
            f"POST /walker/{walker} HTTP/1.1\r\nHost: {self._place.netloc}\r\n"
            f"Authorization: Bearer {self._token}\r\nX-Contextrender-Session: {session}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = await reader.readuntil(b"\r\n\r\n")  # it begins as in `HTTP/1.1 200 OK`
        status = int(head[9:12])
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return status, await reader.readexactly(length)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Agent:
    """An agent whose history grows by one call and one result of 2 KB with every render."""

    def __init__(self, wire: Wire, name: str, seed: int, call_count: int) -> None:
        self._wire, self._name = wire, name
        self._first_messages, self._turns = prepared_calls(seed, call_count)
        self._next_turn = 0
        self._sessions = 0
        # The number of recorded messages, and the digest of the last one.
        self._prefix = (0, "")

    async def begin(self) -> None:
        """Begin another session, and record its first messages."""
        self._sessions += 1
        self._next_turn = 0
        fields = {"session": self.session, "messages": self._first_messages}
        status, body = await self._wire.post("sync", json.dumps(fields).encode(), self.session)
        assert status == 200, body
        self._remember_prefix(body)

    async def call(self, observations: Observations) -> None:
        """Make the next call, and add its time or its error to the measurements."""
        if self._next_turn == len(self._turns):
            await self.begin()
        offset, prefix = self._prefix
        fields: dict[str, Any] = {"session": self.session, "offset": offset, "prefix": prefix}
        fields |= {"output": "plan", "budget": BUDGET}
        # The prepared JSON of the messages is inserted before the closing brace.
        open_object = json.dumps(fields).removesuffix("}").encode()
        body = open_object + b', "messages": ' + self._turns[self._next_turn] + b"}"
        start_time = time.perf_counter()
        status, answer = await self._wire.post("render", body, self.session)
        observations.seconds.append(time.perf_counter() - start_time)
        if status != 200:
            observations.errors[f"{status} {answer[:120]!r}"] += 1
            return
        self._next_turn += 1
        self._remember_prefix(answer)

    @property
    def session(self) -> str:
        """The name of the current session."""
        return f"{self._name}-{self._sessions}"

    def _remember_prefix(self, body: bytes) -> None:
        report = json.loads(body)["reports"][0]
        self._prefix = (report["offset"], report["digest"])


async def run_agents(
    agents: list[Agent], seconds: float, observations: Observations
) -> Observations:
    """Let all agents call for some seconds, and add their measurements."""
    deadline = time.perf_counter() + seconds

    async def work(agent: Agent) -> None:
        while time.perf_counter() < deadline:
            try:
                await agent.call(observations)
            except (OSError, asyncio.IncompleteReadError) as failure:
                observations.errors[type(failure).__name__] += 1
                return

    await asyncio.gather(*(work(agent) for agent in agents))
    return observations


class Crowd:
    """A number of agents at one service, each with its own connection and session."""

    def __init__(self, service: Service, count: int, name: str) -> None:
        self._service = service
        self._wires = [Wire(service.url, service.token) for _ in range(count)]
        call_count = min(MAX_CALLS, CROWD_CALLS // count)
        self._agents = [
            Agent(wire, f"{name}-{n}", n, call_count) for n, wire in enumerate(self._wires)
        ]
        self._observations = Observations()
        # All seconds, and the processor seconds of the service and of the clients.
        self._seconds = self._service_cpu = self._client_cpu = 0.0

    async def begin(self, warm_up_seconds: float) -> None:
        """Begin the agents' sessions, and let them work for some seconds without counting."""
        await asyncio.gather(*(agent.begin() for agent in self._agents))
        await run_agents(self._agents, warm_up_seconds, Observations())

    async def work(self, seconds: float) -> None:
        """Let the agents work for some seconds, and add the measurements."""
        service_cpu, client_cpu = self._service.cpu_seconds(), time.process_time()
        start_time = time.perf_counter()
        await run_agents(self._agents, seconds, self._observations)
        self._seconds += time.perf_counter() - start_time
        self._service_cpu += self._service.cpu_seconds() - service_cpu
        self._client_cpu += time.process_time() - client_cpu

    def figures(self) -> dict[str, Any]:
        """Return the figures of all measurements.

        `cpu_ms` is the service's processor time per call; `asking_share` is the clients' share of
        the processor time of both.
        """
        percentiles = statistics.quantiles(self._observations.seconds, n=100, method="inclusive")
        count = len(self._observations.seconds)
        total_cpu = self._client_cpu + self._service_cpu
        return {
            "agents": len(self._agents),
            "calls": count,
            "errors": self._observations.errors,
            "calls_per_second": count / self._seconds,
            "p50_ms": percentiles[49] * 1000,
            "p95_ms": percentiles[94] * 1000,
            "p99_ms": percentiles[98] * 1000,
            "cpu_ms": self._service_cpu / count * 1000,
            "asking_share": self._client_cpu / total_cpu,
            "cores_used": total_cpu / self._seconds,
        }

    def close(self) -> None:
        for wire in self._wires:
            wire.close()


async def measure_in_turns(
    services: list[Service], agents: int, seconds: float
) -> list[dict[str, Any]]:
    """Return each service's figures. The services take turns, so that noise affects all alike."""
    crowds = [Crowd(service, agents, f"{n}-{agents}") for n, service in enumerate(services)]
    await asyncio.gather(*(crowd.begin(min(2.0, seconds / 4)) for crowd in crowds))
    for turn in range(TURNS):
        # Every second turn begins with the last service.
        for crowd in crowds if turn % 2 else reversed(crowds):
            await crowd.work(seconds / TURNS)
    for crowd in crowds:
        crowd.close()
    return [crowd.figures() for crowd in crowds]

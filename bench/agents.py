"""Agents without pauses: each keeps one connection and one session, and calls again at once.

Requests are made ready beforehand and written to plain sockets, so that little of the machine goes
to those who ask.
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

BEGUN_WITH = 50
"""Results that a session has before it is timed."""
BUDGET = 6_000
LONGEST = 400
"""Calls that an agent has ready; then it begins another session."""
TURNS = 4
READY = 12_800
"""Calls that all agents of a crowd have ready."""


@cache
def made_ready(seed: int, calls: int) -> tuple[Sequence[Json], Sequence[bytes]]:
    """What a session begins with, and its calls. Made once: 128 agents take a minute."""
    sample = Sample(seed)
    first = sample.run(BEGUN_WITH)
    return first, [json.dumps(sample.turn()).encode() for _ in range(calls)]


@dataclass
class Seen:
    """What agents saw: seconds of each call, and what went wrong, by sentence."""

    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)


class Wire:
    """One connection, asked one thing at a time."""

    def __init__(self, url: str, token: str) -> None:
        self._place = urlsplit(url)
        self._token = token
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, walker: str, body: bytes, session: str) -> tuple[int, bytes]:
        """Status and body of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._place.hostname, self._place.port)
        reader, writer = self._streams
        writer.write(
            f"POST /walker/{walker} HTTP/1.1\r\nHost: {self._place.netloc}\r\n"
            f"Authorization: Bearer {self._token}\r\nX-Contextrender-Session: {session}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(head[9:12]), await reader.readexactly(length)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Agent:
    """A run that grows by one call and one result of 2 KB with every render."""

    def __init__(self, wire: Wire, name: str, seed: int, ready: int = LONGEST) -> None:
        self._wire, self._name = wire, name
        self._first, self._turns = made_ready(seed, ready)
        self._next = 0
        self._sessions = 0
        self._known = (0, "")

    async def begin(self) -> None:
        """Records what the session begins with."""
        self._sessions += 1
        self._next = 0
        fields = {"session": self.session, "messages": self._first}
        status, body = await self._wire.post("sync", json.dumps(fields).encode(), self.session)
        assert status == 200, body
        self._keep(body)

    async def call(self, seen: Seen) -> None:
        if self._next == len(self._turns):
            await self.begin()
        offset, prefix = self._known
        fields: dict[str, Any] = {"session": self.session, "offset": offset, "prefix": prefix}
        fields |= {"output": "plan", "budget": BUDGET}
        head = json.dumps(fields)[:-1].encode()
        body = head + b', "messages": ' + self._turns[self._next] + b"}"
        begun = time.perf_counter()
        status, answer = await self._wire.post("render", body, self.session)
        seen.seconds.append(time.perf_counter() - begun)
        if status != 200:
            seen.errors[f"{status} {answer[:120]!r}"] += 1
            return
        self._next += 1
        self._keep(answer)

    @property
    def session(self) -> str:
        """The one it works in."""
        return f"{self._name}-{self._sessions}"

    def _keep(self, body: bytes) -> None:
        report = json.loads(body)["reports"][0]
        self._known = (report["offset"], report["digest"])


async def worked(agents: list[Agent], seconds: float, seen: Seen) -> Seen:
    """Adds what they all see until that long has passed."""
    until = time.perf_counter() + seconds

    async def work(agent: Agent) -> None:
        while time.perf_counter() < until:
            try:
                await agent.call(seen)
            except (OSError, asyncio.IncompleteReadError) as failure:
                seen.errors[type(failure).__name__] += 1
                return

    await asyncio.gather(*(work(agent) for agent in agents))
    return seen


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

    async def begin(self, warm: float) -> None:
        """Records what their sessions begin with, and lets them work so long uncounted."""
        await asyncio.gather(*(agent.begin() for agent in self._agents))
        await worked(self._agents, warm, Seen())

    async def work(self, seconds: float) -> None:
        """So long, counted with what was before."""
        cpu, own, begun = self._service.cpu_seconds(), time.process_time(), time.perf_counter()
        await worked(self._agents, seconds, self._seen)
        self._seconds += time.perf_counter() - begun
        self._cpu += self._service.cpu_seconds() - cpu
        self._own += time.process_time() - own

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
            "asking_share": self._own / (self._own + self._cpu),
            "cores_used": (self._own + self._cpu) / self._seconds,
        }

    def close(self) -> None:
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

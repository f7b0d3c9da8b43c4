"""Agents without pauses: each keeps one connection and one session, and calls again at once.

Requests are made ready beforehand and written to plain sockets, so that little of the machine goes
to those who ask.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.append(str(Path(__file__).resolve().parent.parent / "latency"))
from contextrender_bridge.wire import Json
from sample import Sample

BEGUN_WITH = 50
"""Results that a session has before it is timed."""
BUDGET = 6_000
LONGEST = 400
"""Calls that an agent has ready; then it begins another session."""


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
    errors: dict[str, int] = field(default_factory=dict)

    def wrong(self, what: str) -> None:
        self.errors[what] = self.errors.get(what, 0) + 1

    def add(self, other: "Seen") -> None:
        """What others saw, too."""
        self.seconds += other.seconds
        for what, count in other.errors.items():
            self.errors[what] = self.errors.get(what, 0) + count


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

    def __init__(
        self, wire: Wire, name: str, seed: int, *, walker: str = "render", ready: int = LONGEST
    ) -> None:
        self._wire, self._name, self._walker = wire, name, walker
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
        """The next call."""
        if self._next == len(self._turns):
            await self.begin()
        offset, prefix = self._known
        fields: dict[str, Any] = {"session": self.session, "offset": offset, "prefix": prefix}
        if self._walker == "render":
            fields |= {"want": "plan", "budget": BUDGET}
        head = json.dumps(fields)[:-1].encode()
        body = head + b', "messages": ' + self._turns[self._next] + b"}"
        begun = time.perf_counter()
        status, answer = await self._wire.post(self._walker, body, self.session)
        seen.seconds.append(time.perf_counter() - begun)
        if status != 200:
            seen.wrong(f"{status} {answer[:120]!r}")
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


async def worked(agents: list[Agent], seconds: float) -> Seen:
    """What they all see until that long has passed."""
    seen = Seen()
    until = time.perf_counter() + seconds

    async def work(agent: Agent) -> None:
        while time.perf_counter() < until:
            try:
                await agent.call(seen)
            except (OSError, asyncio.IncompleteReadError) as failure:
                seen.wrong(type(failure).__name__)
                return

    await asyncio.gather(*(work(agent) for agent in agents))
    return seen

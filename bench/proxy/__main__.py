"""Latency that the proxy adds: the same scripted model reached directly and through each proxy.

    python bench/proxy [--calls 60] [--sizes 10,100,1000] [--json FILE]

Every call is the next one of an agent: its history grows by one tool call and one result of 2 KB
(logs, records, tables and prose, as in bench/latency).
Ways take turns, call by call, so that the machine's moods hit all alike; CPU is the processor time
of the processes on the way, which other work on the machine hardly changes. LiteLLM's proxy takes
part when BENCH_LITELLM names the `litellm` of a virtual environment that has `litellm[proxy]`.
The exit code is 1 when a goal (goals.py) is not met.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
import uuid
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import httpx
from contextrender_bridge.wire import Json

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "latency")]
from goals import unmet  # noqa: E402
from model import PAUSE  # noqa: E402
from sample import Sample  # noqa: E402
from servers import Way, find_litellm, ways  # noqa: E402

STREAMS = 32
STREAMED_CALLS = 5
PAUSE_MS = 5.0
PATIENCE = 120.0
HEADS = ("p50", "p95", "p99", "first p50", "added p50", "CPU")


class Caller:
    """One agent on one way."""

    def __init__(self, way: Way, messages: int, *, streams: bool) -> None:
        self.way = way
        self.name = f"bench-{uuid.uuid4().hex}"
        self._run = Sample(messages)
        self._messages = self._run.run((messages - 2) // 2)
        self._streams = streams
        headers = {"content-type": "application/json", "authorization": "Bearer sk-x"}
        named = {"x-contextrender-session": self.name}
        self._http = httpx.AsyncClient(
            base_url=way.url,
            headers={**headers, **named, **way.headers},
            timeout=PATIENCE,
            trust_env=False,
        )

    async def call(self, pause_ms: float = 0.0) -> list[float]:
        """When each piece of the next call's answer came, and when it ended, in seconds from now.

        A streaming model pauses before each piece.
        """
        body: Json = {"model": "m", "stream": self._streams, "messages": self._messages}
        raw = json.dumps({**body, "user": f"{PAUSE}{pause_ms}"}).encode()
        self._messages += self._run.turn()
        begun = time.perf_counter()
        async with self._http.stream("POST", "/v1/chat/completions", content=raw) as got:
            came = [time.perf_counter() - begun async for _ in got.aiter_raw()]
        assert got.status_code == 200, (self.way.name, got.status_code)
        assert "x-contextrender-fail-open" not in got.headers, got.headers
        return [*came, time.perf_counter() - begun]

    async def close(self) -> None:
        await self._http.aclose()


async def latency(found: list[Way], messages: int, calls: int, *, streams: bool) -> Json:
    callers = [Caller(way, messages, streams=streams) for way in found]
    times: dict[str, list[float]] = {way.name: [] for way in found}
    firsts: dict[str, list[float]] = {way.name: [] for way in found}
    cpu = {way.name: 0.0 for way in found}
    for number in range(calls + 3):
        for caller in callers:
            before = caller.way.cpu_seconds()
            came = await caller.call()
            if number >= 3:
                cpu[caller.way.name] += caller.way.cpu_seconds() - before
                times[caller.way.name].append(came[-1] * 1000)
                firsts[caller.way.name].append(came[0] * 1000)
    for caller in callers:
        await caller.close()
    direct = statistics.median(times["direct"])
    return {
        name: {
            "p50": quantile(taken, 0.5),
            "p95": quantile(taken, 0.95),
            "p99": quantile(taken, 0.99),
            "first_byte_p50": quantile(firsts[name], 0.5),
            "added_p50": quantile(taken, 0.5) - direct,
            "cpu_per_call": cpu[name] * 1000 / calls,
        }
        for name, taken in times.items()
    }


async def throughput(found: list[Way], messages: int, calls: int, clients: int = 8) -> Json:
    rates = {}
    for way in found:
        callers = [Caller(way, messages, streams=False) for _ in range(clients)]
        await asyncio.gather(*(caller.call() for caller in callers))

        async def work(caller: Caller) -> None:
            for _ in range(calls):
                await caller.call()

        begun = time.perf_counter()
        await asyncio.gather(*(work(caller) for caller in callers))
        rates[way.name] = clients * calls / (time.perf_counter() - begun)
        for caller in callers:
            await caller.close()
    return rates


async def streams_at_once(found: list[Way], messages: int) -> Json:
    """Agents that all stream at once, from a model that pauses: first bytes, and longest gaps."""
    made = {}
    for way in found:
        callers = [Caller(way, messages, streams=True) for _ in range(STREAMS)]
        await asyncio.gather(*(caller.call() for caller in callers))

        async def work(caller: Caller) -> list[list[float]]:
            return [await caller.call(PAUSE_MS) for _ in range(STREAMED_CALLS)]

        calls = [call for done in await asyncio.gather(*map(work, callers)) for call in done]
        for caller in callers:
            await caller.close()
        firsts = [call[0] * 1000 for call in calls]
        gaps = [max(b - a for a, b in pairwise(call)) * 1000 for call in calls]
        made[way.name] = {
            "first_p50": quantile(firsts, 0.5),
            "first_p99": quantile(firsts, 0.99),
            "gap_p50": quantile(gaps, 0.5),
            "gap_p99": quantile(gaps, 0.99),
            "gap_max": max(gaps),
        }
    return made


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def measure(found: list[Way], sizes: list[int], calls: int) -> Json:
    made: Json = {"latency_ms": {}}
    for size in sizes:
        for streams in (False, True):
            name = f"{size} messages, {'streaming' if streams else 'plain'}"
            made["latency_ms"][name] = await latency(found, size, calls, streams=streams)
            table(f"\n{name}", HEADS, made["latency_ms"][name])
    made["requests_per_second"] = await throughput(found, 100, 10)
    print("\nCalls a second, 100 messages, 8 agents at once")
    for name, rate in made["requests_per_second"].items():
        print(f"{name:16}{rate:9.0f}", flush=True)
    made["streams"] = await streams_at_once(found, 100)
    title = f"\n{STREAMS} streams at once, 100 messages, a piece every {PAUSE_MS:.0f} ms"
    table(title, ("first p50", "first p99", "gap p50", "gap p99", "gap max"), made["streams"])
    return made


def table(title: str, heads: Sequence[str], rows: Json) -> None:
    print(title)
    print(f"{'ms':16}" + "".join(f"{head:>11}" for head in heads))
    for name, row in rows.items():
        print(f"{name:16}" + "".join(f"{value:11.2f}" for value in row.values()), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--sizes", default="10,100,1000")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if find_litellm() is None:
        print("LiteLLM's proxy is left out: BENCH_LITELLM names no `litellm`.")
    with ways() as found:
        sizes = [int(size) for size in args.sizes.split(",")]
        made = asyncio.run(measure(found, sizes, args.calls))
    if args.json:
        args.json.write_text(json.dumps(made, indent=1) + "\n")
    missed = unmet(made)
    print("\nGoals: " + ("; ".join(missed) if missed else "all met"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

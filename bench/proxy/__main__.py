"""Latency that the proxy adds: the same scripted model reached directly and through each proxy.

    python bench/proxy [--calls 60] [--sizes 10,100,1000] [--json FILE]

Every call is the next one of an agent: its history grows by one tool call and one result of 2 KB.
Ways take turns, call by call, so that the machine's moods hit all alike; CPU is the processor time
of the processes on the way, which other work on the machine hardly changes. LiteLLM's proxy takes
part when BENCH_LITELLM names the `litellm` of a virtual environment that has `litellm[proxy]`.
"""

import argparse
import asyncio
import json
import random
import statistics
import string
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent))
from servers import Way, find_litellm, ways

Json = dict[str, Any]

RESULT_CHARACTERS = 2000
STREAMS = 32


def history(messages: int, seed: str) -> list[Json]:
    draw = random.Random(seed)
    made: list[Json] = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": f"Find what is slow, session {seed}."},
    ]
    while len(made) < messages:
        made += turn(len(made), draw)
    return made


def turn(number: int, draw: random.Random) -> list[Json]:
    host = f"host_{number}_{draw.randrange(10**6)}"
    words = ("".join(draw.choices(string.ascii_lowercase, k=6)) for _ in range(400))
    text = f"next: host_{number + 2} " + " ".join(words)
    function = {"name": "get_host", "arguments": json.dumps({"host": host})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": text[:RESULT_CHARACTERS]},
    ]


class Caller:
    """One agent on one way."""

    def __init__(self, way: Way, messages: int, *, streams: bool) -> None:
        self.way = way
        self.name = f"bench-{uuid.uuid4().hex}"
        self._draw = random.Random(messages)
        self._messages = history(messages, f"{messages}")
        self._streams = streams
        headers = {"content-type": "application/json", "authorization": "Bearer sk-x"}
        named = {"x-contextrender-session": self.name}
        self._http = httpx.AsyncClient(
            base_url=way.url, headers={**headers, **named, **way.headers}, trust_env=False
        )

    async def call(self) -> tuple[float, float]:
        """Seconds to the first byte and to the last one of the next call."""
        body: Json = {"model": "m", "stream": self._streams, "messages": self._messages}
        raw = json.dumps(body).encode()
        self._messages += turn(len(self._messages), self._draw)
        begun = time.perf_counter()
        first = 0.0
        async with self._http.stream("POST", "/v1/chat/completions", content=raw) as got:
            async for _ in got.aiter_raw():
                first = first or time.perf_counter() - begun
        took = time.perf_counter() - begun
        assert got.status_code == 200, (self.way.name, got.status_code)
        assert "x-contextrender-fail-open" not in got.headers, got.headers
        return first, took

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
            first, took = await caller.call()
            if number >= 3:
                cpu[caller.way.name] += caller.way.cpu_seconds() - before
                times[caller.way.name].append(took * 1000)
                firsts[caller.way.name].append(first * 1000)
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
    slowest = {}
    for way in found:
        callers = [Caller(way, messages, streams=True) for _ in range(STREAMS)]
        await asyncio.gather(*(caller.call() for caller in callers))
        taken = await asyncio.gather(*(caller.call() for caller in callers))
        slowest[way.name] = max(took for _, took in taken) * 1000
        for caller in callers:
            await caller.close()
    return slowest


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def measure(found: list[Way], sizes: list[int], calls: int) -> Json:
    made: Json = {"latency_ms": {}, "requests_per_second": {}}
    for size in sizes:
        for streams in (False, True):
            name = f"{size} messages, {'streaming' if streams else 'plain'}"
            made["latency_ms"][name] = await latency(found, size, calls, streams=streams)
            show(name, made["latency_ms"][name])
    made["requests_per_second"]["100 messages, 8 at once"] = await throughput(found, 100, 10)
    made[f"slowest_of_{STREAMS}_streams_ms"] = await streams_at_once(found, 20)
    print(json.dumps({k: v for k, v in made.items() if k != "latency_ms"}, indent=1))
    return made


def show(title: str, rows: Json) -> None:
    print(f"\n{title}")
    print(f"{'':16}{'p50':>9}{'p95':>9}{'p99':>9}{'first':>9}{'added':>9}{'CPU':>9}")
    for name, row in rows.items():
        keys = ("p50", "p95", "p99", "first_byte_p50", "added_p50", "cpu_per_call")
        figures = (row[key] for key in keys)
        print(f"{name:16}" + "".join(f"{value:9.2f}" for value in figures), flush=True)


def main() -> None:
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


if __name__ == "__main__":
    main()

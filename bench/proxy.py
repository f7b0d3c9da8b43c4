"""Latency that the proxy adds: the same scripted model reached directly and through each proxy.

    python -m bench.proxy [--calls 60] [--sizes 10,100,1000]

Every call is the next one of an agent: its history grows by one tool call and one result of 2 KB.
Ways take turns, call by call, so that the machine's moods hit all alike. CPU is the processor time
of the processes on the way, over as many calls of one way in a row, until what is done behind the
last answer is done: other work on the machine hardly changes it. LiteLLM's proxy takes
part when BENCH_LITELLM names the `litellm` of a virtual environment that has `litellm[proxy]`.
The exit code is 1 when a goal is not met.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from contextrender_bridge.base.wire import Json

from bench.figures import Goal, Times, told
from bench.sample import Sample
from bench.services import Way, model, process, running
from tests.support.command import PROCESS
from tests.support.programs import free_port

IN_SERVICE, BYPASS, IN_SERVICE_BYPASS = "in jac serve", "proxy, bypass", "in jac serve, bypass"
PATIENCE = 120.0
CLIENTS = 8
REST_SECONDS = 0.3
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

    async def call(self) -> list[float]:
        """When each piece of the next answer came, and when it ended, in seconds from now."""
        body: Json = {"model": "m", "stream": self._streams, "messages": self._messages}
        raw = json.dumps(body).encode()
        self._messages += self._run.turn()
        begun = time.perf_counter()
        async with self._http.stream("POST", "/v1/chat/completions", content=raw) as got:
            came = [time.perf_counter() - begun async for _ in got.aiter_raw()]
        assert got.status_code == 200, (self.way.name, got.status_code)
        assert "x-contextrender-fail-open" not in got.headers, got.headers
        return [*came, time.perf_counter() - begun]

    async def close(self) -> None:
        await self._http.aclose()


@contextmanager
def ways() -> Iterator[list[Way]]:
    """Every way to the model, the direct one first."""
    with ExitStack() as started:
        upstream = started.enter_context(model())
        patient = {"CONTEXTRENDER_RENDER_TIMEOUT": "60"}
        to_model = {"CONTEXTRENDER_UPSTREAM": f"{upstream}/v1", **patient}
        service = started.enter_context(running(1, "", **to_model))
        token, bypass = {"x-contextrender-token": service.token}, {"x-contextrender-mode": "bypass"}
        found = [Way("direct", upstream), Way(IN_SERVICE, service.url, token, (service.pid,))]
        found.append(Way(IN_SERVICE_BYPASS, service.url, {**token, **bypass}, (service.pid,)))
        known = {"CONTEXTRENDER_URL": service.url, "CONTEXTRENDER_TOKEN": service.token}
        url = f"http://127.0.0.1:{free_port()}"
        port = url.rpartition(":")[2]
        command = [*PROCESS, "proxy", "--port", port]
        command += ["--upstream", f"{upstream}/v1"]
        proxy = started.enter_context(process(command, url, **known, **patient))
        found.append(Way("proxy", url, {}, (proxy, service.pid)))
        found.append(Way(BYPASS, url, bypass, (proxy,)))
        if litellm := find_litellm():
            found.append(started.enter_context(through_litellm(litellm, upstream)))
        yield found


def find_litellm() -> str | None:
    """LiteLLM's proxy, in a virtual environment of its own: BENCH_LITELLM names its `litellm`."""
    return shutil.which(os.environ.get("BENCH_LITELLM", ""))


@contextmanager
def through_litellm(program: str, upstream: str) -> Iterator[Way]:
    url = f"http://127.0.0.1:{free_port()}"
    params = {"model": "openai/m", "api_base": f"{upstream}/v1", "api_key": "sk-x"}
    environment = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "PYTHONPATH": "",
    }
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(
            json.dumps({"model_list": [{"model_name": "m", "litellm_params": params}]})
        )
        command = [program, "--config", str(config), "--host", "127.0.0.1"]
        command += ["--port", url.rpartition(":")[2]]
        with process(command, f"{url}/health/liveliness", **environment) as gateway:
            yield Way("LiteLLM", url, {}, (gateway,))


def goals_of(report: Json) -> list[Goal]:
    """Beside passing it through unread, and how many calls one process carries."""
    found = []
    for size, most in (("100", 2.5), ("1000", 2.0)):
        for how in ("plain", "streaming"):
            if rows := report["latency_ms"].get(f"{size} messages, {how}"):
                times = rows[IN_SERVICE]["added_p50"] / rows[IN_SERVICE_BYPASS]["added_p50"]
                cpu = rows[IN_SERVICE]["cpu_per_call"] / rows[IN_SERVICE_BYPASS]["cpu_per_call"]
                what = f"{size} messages, {how}: times what passing unread"
                found += [Goal(f"{what} adds", times, most), Goal(f"{what} takes, CPU", cpu, most)]
    return found


async def latency(found: list[Way], messages: int, calls: int, *, streams: bool) -> Json:
    callers = [Caller(way, messages, streams=streams) for way in found]
    times = {way.name: Times() for way in found}
    firsts = {way.name: Times() for way in found}
    for number in range(calls + 3):
        for caller in callers:
            came = await caller.call()
            if number >= 3:
                times[caller.way.name].seconds.append(came[-1])
                firsts[caller.way.name].seconds.append(came[0])
    cpu = {caller.way.name: await processor_time(caller, calls) for caller in callers}
    for caller in callers:
        await caller.close()
    return {
        name: {
            "p50": taken.ms(),
            "p95": taken.ms(0.95),
            "p99": taken.ms(0.99),
            "first_byte_p50": firsts[name].ms(),
            "added_p50": taken.ms() - times["direct"].ms(),
            "cpu_per_call": cpu[name] * 1000,
        }
        for name, taken in times.items()
    }


async def processor_time(caller: Caller, calls: int) -> float:
    """Seconds a call, of the processes on its way."""
    begun = await at_rest(caller.way)
    for _ in range(calls):
        await caller.call()
    return (await at_rest(caller.way) - begun) / calls


async def at_rest(way: Way) -> float:
    """The processor time of a way's processes, once nothing more is being done."""
    last, used = -1.0, way.cpu_seconds()
    while used != last:
        await asyncio.sleep(REST_SECONDS)
        last, used = used, way.cpu_seconds()
    return used


async def throughput(found: list[Way], messages: int, calls: int) -> Json:
    rates = {}
    for way in found:
        callers = [Caller(way, messages, streams=False) for _ in range(CLIENTS)]
        await asyncio.gather(*(caller.call() for caller in callers))

        async def work(caller: Caller) -> None:
            for _ in range(calls):
                await caller.call()

        begun = time.perf_counter()
        await asyncio.gather(*(work(caller) for caller in callers))
        rates[way.name] = CLIENTS * calls / (time.perf_counter() - begun)
        for caller in callers:
            await caller.close()
    return rates


async def measure(found: list[Way], sizes: list[int], calls: int) -> Json:
    made: Json = {"latency_ms": {}}
    for size in sizes:
        for streams in (False, True):
            name = f"{size} messages, {'streaming' if streams else 'plain'}"
            made["latency_ms"][name] = await latency(found, size, calls, streams=streams)
            table(f"\n{name}", HEADS, made["latency_ms"][name])
    made["requests_per_second"] = await throughput(found, 100, 10)
    print(f"\nCalls a second, 100 messages, {CLIENTS} agents at once")
    for name, rate in made["requests_per_second"].items():
        print(f"{name:22}{rate:9.0f}", flush=True)
    return made


def table(title: str, heads: Sequence[str], rows: Json) -> None:
    print(title)
    print(f"{'ms':22}" + "".join(f"{head:>11}" for head in heads))
    for name, row in rows.items():
        print(f"{name:22}" + "".join(f"{value:11.2f}" for value in row.values()), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--sizes", default="10,100,1000")
    args = parser.parse_args()
    if find_litellm() is None:
        print("LiteLLM's proxy is left out: BENCH_LITELLM names no `litellm`.")
    with ways() as found:
        sizes = [int(size) for size in args.sizes.split(",")]
        made = asyncio.run(measure(found, sizes, args.calls))
    return told(goals_of(made))


if __name__ == "__main__":
    sys.exit(main())

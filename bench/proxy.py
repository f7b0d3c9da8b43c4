"""Measure the latency that the proxy adds, with a scripted model reached directly and by proxies.

    python -m bench.proxy [--calls 60] [--sizes 10,100,1000]

Every call is the next one of an agent, whose history grows by one tool call and one result of 2 KB.
Routes to the model take turns, call by call, so that noise affects all alike. CPU is the processor
time of a route's processes over as many calls in a row, including work after the last answer; other
work on the machine hardly changes it. LiteLLM's proxy is measured if BENCH_LITELLM names the
`litellm` of a virtual environment that has `litellm[proxy]`. The exit code is 1 if a goal is not
met.
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

from bench.figures import Goal, Times, print_goals
from bench.sample import Sample
from bench.services import Route, running_process, running_service, scripted_model
from tests.support.command import PROCESS
from tests.support.programs import free_port

IN_SERVICE, BYPASS, IN_SERVICE_BYPASS = "in jac serve", "proxy, bypass", "in jac serve, bypass"
TIMEOUT_SECONDS = 120.0
CLIENTS = 8
WARM_UP_CALLS = 3
"""The number of first calls on each route that are not counted."""
IDLE_SECONDS = 0.3
HEADS = ("p50", "p95", "p99", "first p50", "added p50", "CPU")


class Caller:
    """An agent that uses one route."""

    def __init__(self, route: Route, messages: int, *, streams: bool) -> None:
        self.route = route
        self.name = f"bench-{uuid.uuid4().hex}"
        self._run = Sample(messages)
        self._messages = self._run.run((messages - 2) // 2)
        self._streams = streams
        headers = {"content-type": "application/json", "authorization": "Bearer sk-x"}
        session_headers = {"x-contextrender-session": self.name}
        self._http = httpx.AsyncClient(
            base_url=route.url,
            headers={**headers, **session_headers, **route.headers},
            timeout=TIMEOUT_SECONDS,
            trust_env=False,
        )

    async def call(self) -> list[float]:
        """Make the next call. Return the seconds until each piece of the answer, and its end."""
        body: Json = {"model": "m", "stream": self._streams, "messages": self._messages}
        raw = json.dumps(body).encode()
        self._messages += self._run.turn()
        start_time = time.perf_counter()
        async with self._http.stream("POST", "/v1/chat/completions", content=raw) as response:
            arrival_times = [time.perf_counter() - start_time async for _ in response.aiter_raw()]
        assert response.status_code == 200, (self.route.name, response.status_code)
        assert "x-contextrender-fail-open" not in response.headers, response.headers
        return [*arrival_times, time.perf_counter() - start_time]

    async def close(self) -> None:
        await self._http.aclose()


@contextmanager
def running_routes() -> Iterator[list[Route]]:
    """Yield every route to the model, the direct one first."""
    with ExitStack() as stack:
        upstream = stack.enter_context(scripted_model())
        timeouts = {"CONTEXTRENDER_RENDER_TIMEOUT": "60"}
        to_model = {"CONTEXTRENDER_UPSTREAM": f"{upstream}/v1", **timeouts}
        service = stack.enter_context(running_service(1, "", **to_model))
        credentials = {"CONTEXTRENDER_URL": service.url, "CONTEXTRENDER_TOKEN": service.token}
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        command = [*PROCESS, "proxy", "--port", str(port), "--upstream", f"{upstream}/v1"]
        proxy = stack.enter_context(running_process(command, url, **credentials, **timeouts))

        token, bypass = {"x-contextrender-token": service.token}, {"x-contextrender-mode": "bypass"}
        routes = [
            Route("direct", upstream),
            Route(IN_SERVICE, service.url, token, (service.pid,)),
            Route(IN_SERVICE_BYPASS, service.url, {**token, **bypass}, (service.pid,)),
            Route("proxy", url, {}, (proxy, service.pid)),
            Route(BYPASS, url, bypass, (proxy,)),
        ]
        if litellm := find_litellm():
            routes.append(stack.enter_context(through_litellm(litellm, upstream)))
        yield routes


def find_litellm() -> str | None:
    """Return the path of the `litellm` program that BENCH_LITELLM names; None if there is none."""
    return shutil.which(os.environ.get("BENCH_LITELLM", ""))


@contextmanager
def through_litellm(program: str, upstream: str) -> Iterator[Route]:
    """Run LiteLLM's proxy while the block runs, and yield the route through it."""
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
        with running_process(command, f"{url}/health/liveliness", **environment) as gateway:
            yield Route("LiteLLM", url, {}, (gateway,))


def goals_of(report: Json) -> list[Goal]:
    """Return the goals: added time and CPU in the service, as ratios to a call passed unread."""
    goals = []
    for size, limit in (("100", 2.5), ("1000", 2.0)):
        for mode in ("plain", "streaming"):
            if rows := report["latency_ms"].get(f"{size} messages, {mode}"):
                times = rows[IN_SERVICE]["added_p50"] / rows[IN_SERVICE_BYPASS]["added_p50"]
                cpu = rows[IN_SERVICE]["cpu_per_call"] / rows[IN_SERVICE_BYPASS]["cpu_per_call"]
                label = f"{size} messages, {mode}: ratio to a call passed unread,"
                goals += [
                    Goal(f"{label} added time", times, limit),
                    Goal(f"{label} CPU", cpu, limit),
                ]
    return goals


async def latency(routes: list[Route], messages: int, calls: int, *, streams: bool) -> Json:
    """Return the times of each route in milliseconds, for histories of this many messages."""
    callers = [Caller(route, messages, streams=streams) for route in routes]
    answer_times = {route.name: Times() for route in routes}
    first_byte_times = {route.name: Times() for route in routes}
    for number in range(WARM_UP_CALLS + calls):
        for caller in callers:
            arrival_times = await caller.call()
            if number >= WARM_UP_CALLS:
                answer_times[caller.route.name].seconds.append(arrival_times[-1])
                first_byte_times[caller.route.name].seconds.append(arrival_times[0])
    cpu_seconds = {caller.route.name: await processor_time(caller, calls) for caller in callers}
    for caller in callers:
        await caller.close()
    return {
        name: {
            "p50": times.milliseconds(),
            "p95": times.milliseconds(0.95),
            "p99": times.milliseconds(0.99),
            "first_byte_p50": first_byte_times[name].milliseconds(),
            "added_p50": times.milliseconds() - answer_times["direct"].milliseconds(),
            "cpu_per_call": cpu_seconds[name] * 1000,
        }
        for name, times in answer_times.items()
    }


async def processor_time(caller: Caller, calls: int) -> float:
    """Return the processor seconds per call of the processes on the route."""
    cpu_before = await cpu_when_idle(caller.route)
    for _ in range(calls):
        await caller.call()
    return (await cpu_when_idle(caller.route) - cpu_before) / calls


async def cpu_when_idle(route: Route) -> float:
    """Return the processor seconds of a route's processes, once they are idle."""
    last, cpu = -1.0, route.cpu_seconds()
    while cpu != last:
        await asyncio.sleep(IDLE_SECONDS)
        last, cpu = cpu, route.cpu_seconds()
    return cpu


async def throughput(routes: list[Route], messages: int, calls: int) -> Json:
    """Return the calls per second on each route, by `CLIENTS` agents at once."""
    rates = {}
    for route in routes:
        callers = [Caller(route, messages, streams=False) for _ in range(CLIENTS)]
        await asyncio.gather(*(caller.call() for caller in callers))

        async def work(caller: Caller) -> None:
            for _ in range(calls):
                await caller.call()

        start_time = time.perf_counter()
        await asyncio.gather(*(work(caller) for caller in callers))
        rates[route.name] = CLIENTS * calls / (time.perf_counter() - start_time)
        for caller in callers:
            await caller.close()
    return rates


async def measure(routes: list[Route], sizes: list[int], calls: int) -> Json:
    """Measure all routes with histories of each size, and print the tables."""
    report: Json = {"latency_ms": {}}
    for size in sizes:
        for streams in (False, True):
            name = f"{size} messages, {'streaming' if streams else 'plain'}"
            report["latency_ms"][name] = await latency(routes, size, calls, streams=streams)
            print_table(f"\n{name}", HEADS, report["latency_ms"][name])
    report["requests_per_second"] = await throughput(routes, 100, 10)
    print(f"\nCalls per second, 100 messages, {CLIENTS} agents at once")
    for name, rate in report["requests_per_second"].items():
        print(f"{name:22}{rate:9.0f}", flush=True)
    return report


def print_table(title: str, heads: Sequence[str], rows: Json) -> None:
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
        print("LiteLLM's proxy is not measured, because BENCH_LITELLM does not name a `litellm`.")
    with running_routes() as routes:
        sizes = [int(size) for size in args.sizes.split(",")]
        report = asyncio.run(measure(routes, sizes, args.calls))
    return print_goals(goals_of(report))


if __name__ == "__main__":
    sys.exit(main())

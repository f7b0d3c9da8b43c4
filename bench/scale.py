"""Scaling: processes, stores and agents; and many sessions.

    python -m bench.scale [--workers 1,2,4] [--agents 8,32,128] [--seconds 8] [--sessions 10000]
                          [--parts processes,many]

Throughput is beside what those who ask take of the machine. PostgreSQL takes part where Debian's
package is installed: a cluster of its own, with syncs. The exit code is 1 where two processes carry
less than 1.7 times what one does.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from contextrender_bridge.evaluation.workers import show_progress

from bench.agents import in_turns
from bench.figures import Goal, told
from bench.sample import Sample
from bench.services import inside, running
from tests.support.postgres import Cluster, missing

RESULTS = 50
USERS = 100


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """The stores there are, by the address that a server is given."""
    if (reason := missing()) is not None:
        print(f"Without PostgreSQL: {reason}")
        yield {"sqlite": ""}
        return
    with Cluster.running(sync="on") as cluster:
        yield {"sqlite": "", "postgresql": cluster.address}


def processes(counts: list[int], agents: list[int], seconds: float) -> list[dict[str, Any]]:
    """Throughput and latency of each store, with so many processes and agents."""
    rows = []
    with stores() as found:
        for store, address in found.items():
            with ExitStack() as running_ones:
                services = [running_ones.enter_context(running(n, address)) for n in counts]
                base = [s.resident_mb() / len(s.processes) for s in services]
                for count in agents:
                    seen = asyncio.run(in_turns(services, count, seconds))
                    for workers, base_mb, row in zip(counts, base, seen, strict=True):
                        about = {"store": store, "workers": workers, "base_mb": base_mb}
                        rows.append({**about, **row})
                        print(line(rows[-1]), flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    return (
        f"{row['store']:10} {row['workers']} processes {row['agents']:4} agents "
        f"{row['calls_per_second']:7.1f} calls/s  p50 {row['p50_ms']:7.1f}  "
        f"p95 {row['p95_ms']:7.1f}  p99 {row['p99_ms']:7.1f} ms  CPU {row['cpu_ms']:5.2f} ms  "
        f"asking {row['asking_share']:.0%} of it, cores {row['cores_used']:.2f}  "
        f"errors {sum(row['errors'].values())}"
    )


def goals_of(rows: list[dict[str, Any]]) -> list[Goal]:
    """Two processes beside one, of each store and number of agents."""
    rate = {(r["store"], r["workers"], r["agents"]): r["calls_per_second"] for r in rows}
    return [
        Goal(f"{store}, {agents} agents: two processes, times one", calls / one, 1.7, least=True)
        for (store, workers, agents), calls in rate.items()
        if workers == 2 and (one := rate.get((store, 1, agents)))
    ]


def many(sessions: int) -> dict[str, Any]:
    """So many sessions of `USERS`: what they take, and what listing and opening one costs."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder,
        inside(Path(folder) / "data") as service,
    ):
        return _many(service, Path(folder) / "data", sessions)


def _many(service: Any, data: Path, sessions: int) -> dict[str, Any]:
    from contextrender_bridge.sessions.caches import PASTS, WORKING_SET

    def call(walker: str, root: str, **fields: Any) -> float:
        """Processor seconds of a call that finds nothing in memory."""
        begun = time.thread_time()
        service.runtime.call(walker, lambda: json.loads(json.dumps(fields)), root)
        return time.thread_time() - begun

    def disk() -> int:
        service.runtime.store.reclaim()
        return (data / "store.db").stat().st_size

    accounts = service.accounts
    tokens = (accounts.token(accounts.add(f"user-{number}")) for number in range(USERS))
    roots = [str(accounts.caller(token).root) for token in tokens]
    messages = [Sample(seed).run(RESULTS) for seed in range(8)]
    before, live = disk(), min(sessions, 200)
    PASTS.limit, WORKING_SET.limit = 0, 2**40
    WORKING_SET.clear()
    with show_progress("Recording sessions", sessions) as advance:
        for number in range(sessions):
            root, name = roots[number % USERS], f"run-{number}"
            call("sync", root, session=name, messages=messages[number % 8])
            advance(1)
            if number == live - 1:
                held = WORKING_SET.nbytes / live
                WORKING_SET.limit = 64 * 2**20
    size = disk() - before
    listed, opened = [], []
    for number in range(min(20, sessions)):
        root = roots[number % USERS]
        WORKING_SET.clear()
        listed.append(call("list_sessions", root))
        WORKING_SET.clear()
        opened.append(call("inspect_session", root, session=f"run-{number}"))
    return {
        "sessions": sessions,
        "list_ms": statistics.median(listed) * 1000,
        "open_ms": statistics.median(opened) * 1000,
        "live_kb": held / 1024,
        "disk_kb_a_session": size / sessions / 1024,
        "bytes_a_result": size / sessions / RESULTS,
    }


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=numbers, default="1,2,4")
    parser.add_argument("--agents", type=numbers, default="8,32,128")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--parts", default="processes,many")
    arguments = parser.parse_args()
    missed = 0
    if "processes" in arguments.parts:
        rows = processes(arguments.workers, arguments.agents, arguments.seconds)
        missed = told(goals_of(rows))
    if "many" in arguments.parts:
        shown = (f"{k} {v:,.2f}" for k, v in many(arguments.sessions).items())
        print("many: " + ", ".join(shown), flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())

"""Measure scaling with processes, stores, agents and sessions.

    python -m bench.scale [--workers 1,2,4] [--agents 8,32,128] [--seconds 8] [--sessions 10000]
                          [--parts processes,many]

Throughput is printed with the clients' share of the machine. PostgreSQL is measured if Debian's
package is installed, with a cluster of its own and synced writes. The exit code is 1 if two
processes serve less than 1.7 times the calls of one.
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

from bench.agents import measure_in_turns
from bench.figures import Goal, print_goals
from bench.sample import Sample
from bench.services import running_service, service_in_process
from tests.support.postgres import Cluster, find_missing_part

RESULTS = 50
USERS = 100


@contextmanager
def available_stores() -> Iterator[dict[str, str]]:
    """Yield the addresses of the available stores, by name."""
    if (reason := find_missing_part()) is not None:
        print(f"PostgreSQL is not measured: {reason}")
        yield {"sqlite": ""}
        return
    with Cluster.running(sync="on") as cluster:
        yield {"sqlite": "", "postgresql": cluster.address}


def measure_processes(counts: list[int], agents: list[int], seconds: float) -> list[dict[str, Any]]:
    """Return throughput and latency of each store, for each number of processes and agents."""
    rows = []
    with available_stores() as addresses:
        for store, address in addresses.items():
            with ExitStack() as stack:
                services = [stack.enter_context(running_service(n, address)) for n in counts]
                start_mb = [s.resident_mb() / len(s.processes) for s in services]
                for agent_count in agents:
                    figures = asyncio.run(measure_in_turns(services, agent_count, seconds))
                    for workers, base_mb, row in zip(counts, start_mb, figures, strict=True):
                        about = {"store": store, "workers": workers, "base_mb": base_mb}
                        rows.append({**about, **row})
                        print(line(rows[-1]), flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """Return a row as text."""
    return (
        f"{row['store']:10} {row['workers']} processes {row['agents']:4} agents "
        f"{row['calls_per_second']:7.1f} calls/s  p50 {row['p50_ms']:7.1f}  "
        f"p95 {row['p95_ms']:7.1f}  p99 {row['p99_ms']:7.1f} ms  CPU {row['cpu_ms']:5.2f} ms  "
        f"asking {row['asking_share']:.0%} of it, cores {row['cores_used']:.2f}  "
        f"errors {sum(row['errors'].values())}"
    )


def goals_of(rows: list[dict[str, Any]]) -> list[Goal]:
    """Return a goal for two processes compared with one, for each store and number of agents."""
    rate = {(r["store"], r["workers"], r["agents"]): r["calls_per_second"] for r in rows}
    return [
        Goal(
            f"{store}, {agents} agents: two processes, ratio to one",
            calls / single_rate,
            1.7,
            is_minimum=True,
        )
        for (store, workers, agents), calls in rate.items()
        if workers == 2 and (single_rate := rate.get((store, 1, agents)))
    ]


def measure_many(sessions: int) -> dict[str, Any]:
    """Measure many sessions of `USERS` users: their size, and the time to list and open one."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder,
        service_in_process(Path(folder) / "data") as service,
    ):
        return _measure_many(service, Path(folder) / "data", sessions)


def _measure_many(service: Any, data: Path, sessions: int) -> dict[str, Any]:
    accounts = service.accounts
    tokens = (accounts.token(accounts.add(f"user-{number}")) for number in range(USERS))
    roots = [str(accounts.caller(token).root) for token in tokens]
    disk_before = disk_bytes(service, data)
    bytes_per_session = record_sessions(service, roots, sessions)
    disk_size = disk_bytes(service, data) - disk_before
    list_seconds, open_seconds = read_sessions(service, roots, min(20, sessions))
    return {
        "sessions": sessions,
        "list_ms": list_seconds * 1000,
        "open_ms": open_seconds * 1000,
        "live_kb": bytes_per_session / 1024,
        "disk_kb_a_session": disk_size / sessions / 1024,
        "bytes_a_result": disk_size / sessions / RESULTS,
    }


def disk_bytes(service: Any, data: Path) -> int:
    """Return the bytes of the database's file, without free pages."""
    service.runtime.store.reclaim()
    return (data / "store.db").stat().st_size


def call(service: Any, walker: str, root: str, **fields: Any) -> float:
    """Call a walker and return the processor seconds of the call."""
    start_time = time.thread_time()
    service.runtime.call(walker, json.loads(json.dumps(fields)), root)
    return time.thread_time() - start_time


def record_sessions(service: Any, roots: list[str], sessions: int) -> float:
    """Record sessions, and return the bytes of memory that each of the first ones takes.

    The first sessions all stay in memory, so that they can be measured.
    """
    from contextrender_bridge.runtime.caches import REPLAYS
    from contextrender_bridge.runtime.session_lease import WORKING_SET

    runs = [Sample(seed).run(RESULTS) for seed in range(8)]
    measured_sessions, bytes_per_session = min(sessions, 200), 0.0
    REPLAYS.limit, WORKING_SET.limit = 0, 2**40
    WORKING_SET.clear()
    with show_progress("Recording sessions", sessions) as advance:
        for number in range(sessions):
            root, run = roots[number % USERS], runs[number % len(runs)]
            call(service, "sync", root, session=f"run-{number}", messages=run)
            advance(1)
            if number == measured_sessions - 1:
                bytes_per_session = WORKING_SET.nbytes / measured_sessions
                WORKING_SET.limit = 64 * 2**20
    return bytes_per_session


def read_sessions(service: Any, roots: list[str], count: int) -> tuple[float, float]:
    """Return the median seconds to list a user's sessions, and to open one, with empty caches."""
    from contextrender_bridge.runtime.session_lease import WORKING_SET

    list_seconds, open_seconds = [], []
    for number in range(count):
        root = roots[number % USERS]
        WORKING_SET.clear()
        list_seconds.append(call(service, "list_sessions", root))
        WORKING_SET.clear()
        open_seconds.append(call(service, "inspect_session", root, session=f"run-{number}"))
    return statistics.median(list_seconds), statistics.median(open_seconds)


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
        rows = measure_processes(arguments.workers, arguments.agents, arguments.seconds)
        missed = print_goals(goals_of(rows))
    if "many" in arguments.parts:
        figures = (f"{k} {v:,.2f}" for k, v in measure_many(arguments.sessions).items())
        print("many: " + ", ".join(figures), flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())

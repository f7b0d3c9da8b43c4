"""Scaling: processes, stores and agents; sessions that grow, and many of them; fleets on paper.

    python bench/scale [--workers 1,2,4] [--agents 8,32,128] [--seconds 8] [--sessions 10000]
                       [--parts processes,append,new,many,model] [--json FILE]

Throughput is beside what those who ask take of the machine. PostgreSQL takes part where Debian's
package is installed: a cluster of its own, with syncs. What is called `times` is a ratio within the
run. `--model FILE` prints the fleets again from the figures of an earlier `--json FILE`.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "load"), str(HERE.parent.parent)]
from crowd import in_turns  # noqa: E402
from model import Units, table  # noqa: E402
from service import running  # noqa: E402

from tests.support.postgres import Cluster, missing  # noqa: E402

PARTS = ("processes", "append", "new", "many", "model")


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


def compared(rows: list[dict[str, Any]]) -> list[str]:
    """The ratios that the goals are about."""
    rate = {(r["store"], r["workers"], r["agents"]): r for r in rows}
    lines = []
    for (store, workers, agents), row in rate.items():
        one = rate.get((store, 1, agents))
        if workers > 1 and one:
            times = row["calls_per_second"] / one["calls_per_second"]
            lines.append(f"{store}, {agents} agents: {workers} processes carry {times:.2f} x one")
        other = rate.get(("sqlite", workers, agents))
        if store != "sqlite" and other and workers == 1:
            times = row["p50_ms"] / other["p50_ms"]
            lines.append(f"{agents} agents: {store}'s p50 is {times:.2f} x sqlite's")
    return lines


def units_of(report: dict[str, Any]) -> Units:
    """What the model is made from."""
    cells = [r for r in report["processes"] if r["store"] == "sqlite" and r["workers"] == 1]
    one = min(cells, key=lambda row: row["agents"])
    return Units(
        cpu_ms=one["cpu_ms"],
        bytes_a_result=report["many"]["bytes_a_result"],
        live_mb=report["many"]["live_kb"] / 1024,
        base_mb=one["base_mb"],
    )


def measured(arguments: argparse.Namespace, parts: list[str]) -> dict[str, Any]:
    report: dict[str, Any] = {}
    if "processes" in parts:
        counts, agents = numbers(arguments.workers), numbers(arguments.agents)
        report["processes"] = processes(counts, agents, arguments.seconds)
        print("\n".join(compared(report["processes"])))
    if {"append", "new", "many"} & set(parts):
        import inside

        within = inside.Inside()
        made: dict[str, Callable[[], dict[str, Any]]] = {
            "append": lambda: inside.append(within, 20_000),
            "new": lambda: inside.new_sessions(within, 3_000),
            "many": lambda: inside.many(within, arguments.users, arguments.sessions),
        }
        for part, measure in made.items():
            if part in parts:
                report[part] = measure()
                shown = (f"{k} {v:,.2f}" for k, v in report[part].items())
                print(f"{part}: " + ", ".join(shown), flush=True)
        within.close()
    return report


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--agents", default="8,32,128")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--model", type=Path)
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    if arguments.model:
        report = json.loads(arguments.model.read_text())
    else:
        report = measured(arguments, parts)
    if arguments.json:
        known = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
        arguments.json.write_text(json.dumps({**known, **report}, indent=1))
    if "model" in parts and "processes" in report and "many" in report:
        units = units_of(report)
        print(units)
        print("\n".join(table(units)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

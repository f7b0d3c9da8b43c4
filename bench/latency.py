"""Measure how long a render takes, and compare it with its lower bound.

    python -m bench.latency [--quick]

Synthetic runs have 50, 500 and 5,000 results of 2 KB and are always the same. The lower bound, or
floor, is NumPy's arithmetic, tiktoken's count of the new messages and one synced write, measured
between the renders. Compare the ratios, not the times. The exit code is 1 if a goal is not met.
"""

import argparse
import importlib
import json
import logging
import math
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

# A matrix product on several busy processors waits for the slowest, which would raise the floor.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ.setdefault("CONTEXTRENDER_EMBED_MODEL", "wordllama")

import httpx
from contextrender_bridge.base.wire import Json
from contextrender_bridge.evaluation.workers import show_progress

from bench.figures import Goal, Times, print_goals
from bench.floors import Floors
from bench.sample import Sample
from bench.services import Service, running_service, service_in_process

SIZES, QUICK = (50, 500, 5_000), (50, 500)
SAMPLES, QUICK_SAMPLES = 400, 60
COLD_RESULTS: Final = 333
"""The results of a session with 1,000 events: three events per result, and the first messages."""
COLD_SAMPLES = 5

Report = dict[str, Any]
Post = Callable[[str, Json], bytes]
"""A function that calls a walker with fields and returns the reply's body."""


class Session:
    """A session that is recorded through `post`."""

    def __init__(self, post: Post, name: str, seed: int = 0) -> None:
        self.sample = Sample(seed)
        self._last_reply: Json = {}
        self._post = post
        self._name = name

    def fill(self, results: int) -> None:
        """Record a whole run in one request."""
        self.call("sync", self.sample.run(results), Times())

    def call(self, walker: str, new_messages: list[Json], times: Times) -> None:
        """Send the new messages to `render` or `sync`, and add the time of the call to `times`."""
        fields: Json = {"session": self._name, "messages": new_messages}
        if self._last_reply:
            fields |= {"offset": self._last_reply["offset"], "prefix": self._last_reply["digest"]}
        body = times.measure(lambda: self._post(walker, fields))
        self._last_reply = json.loads(body)["reports"][0]


@contextmanager
def in_process(data: Path) -> Iterator[Post]:
    """Yield a function that calls walkers in this process on a new database, warmed up."""
    with service_in_process(data) as service:
        root = service.accounts.caller(service.accounts.local_token()).root
        yield lambda walker, fields: service.runtime.call(walker, fields, root)


@contextmanager
def over_http(service: Service) -> Iterator[Post]:
    """Yield a function that calls walkers of a service over one HTTP connection."""
    headers = {"Authorization": f"Bearer {service.token}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=120, trust_env=False) as http:
        yield (
            lambda walker, fields: (
                http.post(f"/walker/{walker}", json=fields).raise_for_status().content
            )
        )


def measure_renders(post: Post, results: int, samples: int, folder: Path) -> Report:
    """Measure about `samples` renders of a new call and its result, and the floor between them.

    Every session has on average `results` results while it is measured.
    """
    floors, render_times, repeat_times = Floors(results, folder), Times(), Times()
    disk_bytes = 0
    renders_per_session = min(samples, max(20, 2 * results // 5))
    for number in range(math.ceil(samples / renders_per_session)):
        session = Session(post, f"s-{results}-{number}", seed=number)
        session.fill(max(results - renders_per_session // 2, 1))
        session.call("render", session.sample.turn(), Times())  # warms up; it is not counted
        empty_log(folder / "data" / "store.db")
        for _ in range(renders_per_session):
            new_messages = session.sample.turn()
            disk_bytes -= bytes_written()
            session.call("render", new_messages, render_times)
            disk_bytes += bytes_written()
            session.call("render", [], repeat_times)
            floors.measure(new_messages)
    floors.close()
    return {
        "results": results,
        **{f"p{share}": render_times.milliseconds(share / 100) for share in (50, 95, 99)},
        "floor": floors.milliseconds(),
        "repeat": repeat_times.milliseconds(),
        "disk": floors.disk.milliseconds(),
        "written_kb": disk_bytes / 1024 / len(render_times.seconds),
    }


def empty_log(database: Path) -> None:
    """Copy SQLite's log into the database's file, so that no render does it for earlier writes."""
    if database.exists():
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def bytes_written() -> int:
    """Return the bytes that this process has written to disks."""
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["write_bytes"])


def measure_cold(post: Post) -> float:
    """Return the milliseconds of a render whose session must be read from the database."""
    working_set = importlib.import_module("contextrender_bridge.runtime.session_lease").WORKING_SET
    session, times = Session(post, "cold"), Times()
    session.fill(COLD_RESULTS)
    session.call("render", [], Times())
    for _ in range(COLD_SAMPLES):
        working_set.clear()
        session.call("render", [], times)
    return times.milliseconds()


def measure_all(folder: Path, sizes: tuple[int, ...], samples: int) -> Report:
    """Measure renders of sessions of each size, in this process and over HTTP."""
    report: Report = {"in process": [], "over HTTP": []}
    with show_progress("Measuring", 2 * len(sizes) + 1) as advance:
        with in_process(folder / "data") as post:
            for results in sizes:
                report["in process"].append(measure_renders(post, results, samples, folder))
                advance(1)
            report["cold"] = measure_cold(post)
            advance(1)
        with running_service() as service, over_http(service) as post:
            report["server_mb"] = service.resident_mb()
            for results in sizes:
                report["over HTTP"].append(measure_renders(post, results, samples, folder))
                advance(1)
    return report


def print_report(report: Report) -> None:
    """Print a row per place and size, in milliseconds, and then the other figures."""
    columns = ("p50", "p95", "p99", "p99/p50", "floor", "x floor", "nothing new", "synced write")
    print(f"{'ms':<8}{'':<12}" + "".join(f"{name:>13}" for name in columns))
    for place in ("in process", "over HTTP"):
        for row in report[place]:
            figures = [
                *(row["p50"], row["p95"], row["p99"], row["p99"] / row["p50"]),
                *(row["floor"], row["p50"] / row["floor"]),
                *(row["repeat"], row["disk"]),
            ]
            cells = "".join(f"{figure:>13.1f}" for figure in figures)
            print(f"{row['results']:<8,}{place:<12}{cells}")
    kilobytes = ", ".join(f"{row['written_kb']:.0f}" for row in report["in process"])
    print(f"KB written to disk per render, checkpoints included, by size: {kilobytes}")
    print(f"render of a session of 1,000 events from the database: {report['cold']:.0f} ms")
    print(f"memory of the server after its start: {report['server_mb']:.0f} MB")


def goals_of(report: Report) -> list[Goal]:
    """Return the goals. They are ratios within the run, so that the machine matters little."""
    within, outside = (
        next(row for row in report[place] if row["results"] == 500)
        for place in ("in process", "over HTTP")
    )
    return [
        Goal("render in process, 500 results, x floor", within["p50"] / within["floor"], 4),
        Goal("render over HTTP, 500 results, x floor", outside["p50"] / outside["floor"], 5),
        Goal("render over HTTP, 500 results, p99 / p50", outside["p99"] / outside["p50"], 2),
        Goal("session of 1,000 events read again, renders", report["cold"] / within["p50"], 10),
        Goal(
            "KB written to disk per render", max(r["written_kb"] for r in report["in process"]), 90
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.latency", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="measure fewer and smaller runs")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    sizes, samples = (QUICK, QUICK_SAMPLES) if args.quick else (SIZES, SAMPLES)
    with tempfile.TemporaryDirectory(prefix="contextrender-bench-") as folder:
        report = measure_all(Path(folder), sizes, samples)
    print_report(report)
    return print_goals(goals_of(report))


if __name__ == "__main__":
    sys.exit(main())

"""How long a render takes, what it weighs, and what other libraries take beside it.

    python -m bench.latency [--quick] [--peers | --no-peers] [--json FILE]

Made-up runs of 50, 500 and 5,000 results of 2 KB, always the same. Beside a render's time stands
its floor: NumPy's arithmetic, tiktoken's count of the new messages and one synced write, measured
between the renders. Read the ratios. The exit code is 1 when a goal is not met.
"""

import argparse
import gc
import importlib
import json
import logging
import os
import sqlite3
import sys
import tempfile
import time
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any, Final

# A matrix product split over busy processors waits for the slowest: the floor would be higher.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ.setdefault("CONTEXTRENDER_EMBED_MODEL", "wordllama")

from contextrender_bridge.client import ContextRender

from bench.beside import beside
from bench.figures import Goal, Times, told
from bench.floors import Floors
from bench.sample import Sample
from bench.services import Service, running
from bench.session import Post, Session, in_process, over_http
from evaluation.progress import progress

SIZES, QUICK = (50, 500, 5_000), (50, 500)
SAMPLES, QUICK_SAMPLES = 400, 60
COLD_RESULTS: Final = 333
"""With three events a result and the opening, a session of 1,000 events."""
COLD_SAMPLES, CLIENT_SAMPLES = 5, 50
MEMORY_RESULTS: Final = 1_000

Report = dict[str, Any]


def measure_renders(post: Post, results: int, samples: int, folder: Path) -> Report:
    """Renders with a new call and its result at about so many results, floors in between."""
    floors, render, repeat = Floors(results, folder), Times(), Times()
    steps = min(samples, max(20, 2 * results // 5))
    for number in range(-(-samples // steps)):
        session = Session(post, f"s-{results}-{number}", seed=number)
        session.fill(max(results - steps // 2, 1))
        session.call("render", session.sample.turn(), Times())
        for _ in range(steps):
            fresh = session.sample.turn()
            session.call("render", fresh, render)
            session.call("render", [], repeat)
            floors.measure(fresh)
    floors.close()
    return {
        "results": results,
        **{f"p{share}": render.ms(share / 100) for share in (50, 95, 99)},
        "floor": floors.ms(),
        "repeat": repeat.ms(),
        "disk": floors.disk.ms(),
    }


def measure_cold(post: Post) -> float:
    """Milliseconds of a render whose session must be read from the database."""
    working_set = importlib.import_module("graph.sessions.caches").WORKING_SET
    session, times = Session(post, "cold"), Times()
    session.fill(COLD_RESULTS)
    session.call("render", [], Times())
    for _ in range(COLD_SAMPLES):
        working_set.clear()
        session.call("render", [], times)
    return times.ms()


def measure_memory(post: Post, results: int) -> float:
    """Bytes that a session takes in memory, by Python's allocator; the first one warms up."""
    for name in ("first", "held"):
        session = Session(post, name)
        tracemalloc.start()
        session.fill(results)
        session.call("render", [], Times())
        del session
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return float(held)


def measure_disk(data: Path, post: Post, results: int) -> float:
    """Bytes of the database for a result with its call and messages."""
    before = _size(data)
    session = Session(post, "stored")
    session.fill(results)
    session.call("render", [], Times())
    return (_size(data) - before) / results


def _size(data: Path) -> int:
    connection = sqlite3.connect(data / "store.db")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    return int(pages * size)


class _Client(ContextRender):
    """Tells how much of its processor time went on the way to the service and back."""

    away = 0.0

    def _take(self, step: Any) -> Any:
        begun = time.thread_time()
        try:
            return super()._take(step)
        finally:
            self.away += time.thread_time() - begun


def measure_client(service: Service, results: int) -> float:
    """Milliseconds of processor time of `fit` that are the client's own, HTTP left out."""
    sample, times = Sample(), Times()
    messages = sample.run(results)
    with closing(_Client(service.url, service.token, timeout=120)) as client:
        for number in range(CLIENT_SAMPLES + 2):
            client.away, begun = 0.0, time.thread_time()
            fit = client.fit(f"client-{results}", messages, fail_open=False, deadline=120)
            if number >= 2:
                times.seconds.append(time.thread_time() - begun - client.away)
            assert fit.reply is not None
            messages += sample.turn()
    return times.ms()


def measured(folder: Path, sizes: tuple[int, ...], samples: int, peers: bool) -> Report:
    report: Report = {"in process": [], "over HTTP": [], "beside": []}
    with progress("Measuring", 2 * len(sizes) + 3) as advance:
        data = folder / "data"
        with in_process(data) as post:
            report["disk_bytes"] = measure_disk(data, post, MEMORY_RESULTS)
            report["memory_bytes"] = measure_memory(post, MEMORY_RESULTS)
            advance(1)
            for results in sizes:
                report["in process"].append(measure_renders(post, results, samples, folder))
                advance(1)
            report["cold"] = measure_cold(post)
            advance(1)
        with running() as service, over_http(service) as post:
            report["server_mb"] = service.resident_mb()
            for results in sizes:
                report["over HTTP"].append(measure_renders(post, results, samples, folder))
                advance(1)
            report["client"] = {size: measure_client(service, size) for size in sizes}
            advance(1)
    for name, results, times in beside(sizes) if peers else ():
        figure = times if isinstance(times, str) else times.ms()
        report["beside"].append({"name": name, "results": results, "ms": figure})
    return report


def show(report: Report) -> None:
    """Prints it."""
    columns = ("p50", "p95", "p99", "p99/p50", "floor", "x floor", "nothing new", "synced write")
    print(f"{'ms':<8}{'':<12}" + "".join(f"{name:>13}" for name in columns))
    renders = {row["results"]: row["p50"] for row in report["in process"]}
    for place in ("in process", "over HTTP"):
        for row in report[place]:
            shares = [row["p50"], row["p95"], row["p99"], row["p99"] / row["p50"]]
            shown = [*shares, row["floor"], row["p50"] / row["floor"], row["repeat"], row["disk"]]
            cells = "".join(f"{figure:>13.1f}" for figure in shown)
            print(f"{row['results']:<8,}{place:<12}{cells}")
    for row in report["beside"]:
        known = isinstance(row["ms"], float)
        times = f"{row['ms']:.0f} ms, {row['ms'] / renders[row['results']]:.0f} x a render"
        print(f"{row['name']}, {row['results']:,} results: {times if known else row['ms']}")
    print(f"the client's own part of fit: {report['client']} ms by results")
    print(f"a session of 1,000 events read again: {report['cold']:.0f} ms")
    print(f"a result: {report['disk_bytes']:,.0f} bytes on disk", end=", ")
    print(f"{report['memory_bytes'] / MEMORY_RESULTS:,.0f} in memory; ", end="")
    print(f"the server at its start: {report['server_mb']:.0f} MB")


def goals_of(report: Report) -> list[Goal]:
    """Ratios within the run, where the machine could matter."""
    within, outside = (
        next(row for row in report[place] if row["results"] == 500)
        for place in ("in process", "over HTTP")
    )
    goals = [
        Goal("render in process, 500 results, x floor", within["p50"] / within["floor"], 4),
        Goal("render over HTTP, 500 results, x floor", outside["p50"] / outside["floor"], 5),
        Goal("render over HTTP, 500 results, p99 / p50", outside["p99"] / outside["p50"], 2),
        Goal("session of 1,000 events read again, renders", report["cold"] / within["p50"], 10),
        Goal("memory of 1,000 results, MB", report["memory_bytes"] / 1e6, 10),
        *(
            Goal(f"the client's own part, {results:,} results, ms", own, 1)
            for results, own in report["client"].items()
        ),
    ]
    return goals + [
        Goal("trim_messages, renders", row["ms"] / within["p50"], 20, least=True)
        for row in report["beside"]
        if row["name"] == "langchain trim_messages" and row["results"] == 500
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.latency", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="fewer and smaller, without peers")
    parser.add_argument(
        "--peers",
        action=argparse.BooleanOptionalAction,
        help="other libraries too, installed once (not with --quick, unless asked)",
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    peers = not args.quick if args.peers is None else args.peers
    sizes, samples = (QUICK, QUICK_SAMPLES) if args.quick else (SIZES, SAMPLES)
    with tempfile.TemporaryDirectory(prefix="contextrender-bench-") as folder:
        report = measured(Path(folder), sizes, samples, peers)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    show(report)
    return told(goals_of(report))


if __name__ == "__main__":
    sys.exit(main())

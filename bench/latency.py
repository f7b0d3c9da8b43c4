"""How long a render takes, beside what it cannot do without.

    python -m bench.latency [--quick]

Made-up runs of 50, 500 and 5,000 results of 2 KB, always the same. Beside a render's time stands
its floor: NumPy's arithmetic, tiktoken's count of the new messages and one synced write, measured
between the renders. Read the ratios. The exit code is 1 when a goal is not met.
"""

import argparse
import importlib
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

# A matrix product split over busy processors waits for the slowest: the floor would be higher.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ.setdefault("CONTEXTRENDER_EMBED_MODEL", "wordllama")

import httpx
from contextrender_bridge.base.wire import Json
from contextrender_bridge.evaluation.workers import show_progress

from bench.figures import Goal, Times, told
from bench.floors import Floors
from bench.sample import Sample
from bench.services import Service, inside, running

SIZES, QUICK = (50, 500, 5_000), (50, 500)
SAMPLES, QUICK_SAMPLES = 400, 60
COLD_RESULTS: Final = 333
"""With three events a result and the opening, a session of 1,000 events."""
COLD_SAMPLES = 5

Report = dict[str, Any]
Post = Callable[[str, Json], bytes]
"""Calls a walker with its fields; the reply's body."""


class Session:
    """A run being recorded through `post`."""

    def __init__(self, post: Post, name: str, seed: int = 0) -> None:
        self.sample = Sample(seed)
        self._reply: Json = {}
        self._post = post
        self._name = name

    def fill(self, results: int) -> None:
        """Records a whole run in one request."""
        self.call("sync", self.sample.run(results), Times())

    def call(self, walker: str, fresh: list[Json], times: Times) -> None:
        """Sends the new messages to `render` or `sync`."""
        fields: Json = {"session": self._name, "messages": fresh}
        if self._reply:
            fields |= {"offset": self._reply["offset"], "prefix": self._reply["digest"]}
        body = times.measure(lambda: self._post(walker, fields))
        self._reply = json.loads(body)["reports"][0]


@contextmanager
def in_process(data: Path) -> Iterator[Post]:
    """Walkers over a new database, warmed up like a server."""
    with inside(data) as service:
        root = service.accounts.caller(service.accounts.local_token()).root
        yield lambda walker, fields: service.runtime.call(walker, lambda: fields, root)


@contextmanager
def over_http(service: Service) -> Iterator[Post]:
    """The same by one kept-alive connection."""
    headers = {"Authorization": f"Bearer {service.token}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=120, trust_env=False) as http:
        yield (
            lambda walker, fields: (
                http.post(f"/walker/{walker}", json=fields).raise_for_status().content
            )
        )


def measure_renders(post: Post, results: int, samples: int, folder: Path) -> Report:
    """Renders with a new call and its result at about so many results, floors in between."""
    floors, render, repeat = Floors(results, folder), Times(), Times()
    written = 0
    steps = min(samples, max(20, 2 * results // 5))
    for number in range(-(-samples // steps)):
        session = Session(post, f"s-{results}-{number}", seed=number)
        session.fill(max(results - steps // 2, 1))
        session.call("render", session.sample.turn(), Times())
        for _ in range(steps):
            fresh = session.sample.turn()
            written -= written_bytes()
            session.call("render", fresh, render)
            written += written_bytes()
            session.call("render", [], repeat)
            floors.measure(fresh)
    floors.close()
    return {
        "results": results,
        **{f"p{share}": render.ms(share / 100) for share in (50, 95, 99)},
        "floor": floors.ms(),
        "repeat": repeat.ms(),
        "disk": floors.disk.ms(),
        "written_kb": written / 1024 / len(render.seconds),
    }


def written_bytes() -> int:
    """What this process has sent to disks."""
    told = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(told["write_bytes"])


def measure_cold(post: Post) -> float:
    """Milliseconds of a render whose session must be read from the database."""
    working_set = importlib.import_module("contextrender_bridge.sessions.caches").WORKING_SET
    session, times = Session(post, "cold"), Times()
    session.fill(COLD_RESULTS)
    session.call("render", [], Times())
    for _ in range(COLD_SAMPLES):
        working_set.clear()
        session.call("render", [], times)
    return times.ms()


def measured(folder: Path, sizes: tuple[int, ...], samples: int) -> Report:
    report: Report = {"in process": [], "over HTTP": []}
    with show_progress("Measuring", 2 * len(sizes) + 1) as advance:
        with in_process(folder / "data") as post:
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
    return report


def show(report: Report) -> None:
    columns = ("p50", "p95", "p99", "p99/p50", "floor", "x floor", "nothing new", "synced write")
    print(f"{'ms':<8}{'':<12}" + "".join(f"{name:>13}" for name in columns))
    for place in ("in process", "over HTTP"):
        for row in report[place]:
            shares = [row["p50"], row["p95"], row["p99"], row["p99"] / row["p50"]]
            shown = [*shares, row["floor"], row["p50"] / row["floor"], row["repeat"], row["disk"]]
            cells = "".join(f"{figure:>13.1f}" for figure in shown)
            print(f"{row['results']:<8,}{place:<12}{cells}")
    written = ", ".join(f"{row['written_kb']:.0f}" for row in report["in process"])
    print(f"KB written to disk with a render, checkpoints included, by size: {written}")
    print(f"a session of 1,000 events read again: {report['cold']:.0f} ms")
    print(f"the server at its start: {report['server_mb']:.0f} MB")


def goals_of(report: Report) -> list[Goal]:
    """Ratios within the run, where the machine could matter."""
    within, outside = (
        next(row for row in report[place] if row["results"] == 500)
        for place in ("in process", "over HTTP")
    )
    return [
        Goal("render in process, 500 results, x floor", within["p50"] / within["floor"], 4),
        Goal("render over HTTP, 500 results, x floor", outside["p50"] / outside["floor"], 5),
        Goal("render over HTTP, 500 results, p99 / p50", outside["p99"] / outside["p50"], 2),
        Goal("session of 1,000 events read again, renders", report["cold"] / within["p50"], 10),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.latency", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="fewer and smaller")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    sizes, samples = (QUICK, QUICK_SAMPLES) if args.quick else (SIZES, SAMPLES)
    with tempfile.TemporaryDirectory(prefix="contextrender-bench-") as folder:
        report = measured(Path(folder), sizes, samples)
    show(report)
    return told(goals_of(report))


if __name__ == "__main__":
    sys.exit(main())

"""All measurements, in order; how far they are goes to stderr."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from beside import measure_peers
from calls import measure_calls
from footprint import measure_database, measure_server, measure_working_set
from goals import COLD_RESULTS, MEMORY_RESULTS, goals_of
from in_process import measure_cold, measure_engine, measure_ingest, store
from over_http import Server, measure_client, measure_restart, measure_round_trip
from pauses import Pauses, measure_full_collection

from evaluation.progress import progress

INGESTED_RESULTS = 300
CLIENT_RESULTS = 500

Report = dict[str, Any]
Advance = Callable[[int], None]


def run(folder: Path, sizes: Sequence[int], samples: int, *, peers: bool) -> Report:
    """The whole report."""
    start = time.monotonic()
    steps = 3 * len(sizes) + 8 + (2 * len(sizes) if peers else 0)
    with progress("Measuring", steps) as advance:
        report = _in_process(folder, sizes, samples, advance)
        report |= _over_http(folder, sizes, samples, advance)
        report["working_set"] = measure_working_set(MEMORY_RESULTS)
        advance(1)
        if peers:
            report["peers"] = measure_peers(sizes, lambda: advance(1))
    report["goals"] = [goal.to_json() for goal in goals_of(report)]
    report["seconds"] = round(time.monotonic() - start)
    return report


def _in_process(folder: Path, sizes: Sequence[int], samples: int, advance: Advance) -> Report:
    report: Report = {"in_process": [], "pauses": [], "cold": [], "engine": []}
    data = folder / "in-process"
    with store(data) as post:
        report["collection"] = measure_full_collection()
        for results in sizes:
            with Pauses(data) as pauses:
                calls = measure_calls(post, results, samples, folder, pauses)
            report["in_process"].append(calls.to_json())
            report["pauses"].append({"results": results, **pauses.to_json()})
            advance(1)
            report["engine"].append(measure_engine(results, samples))
            advance(1)
        for results in sorted({*sizes, COLD_RESULTS}):
            report["cold"].append(measure_cold(post, results, f"cold-{results}"))
        advance(1)
        report["ingest"] = measure_ingest(post, INGESTED_RESULTS)
        advance(1)
    return report


def _over_http(folder: Path, sizes: Sequence[int], samples: int, advance: Advance) -> Report:
    report: Report = {"http": []}
    data = folder / "http"
    data.mkdir(mode=0o700)
    with Server(data) as server:
        report["server"] = measure_server(server, MEMORY_RESULTS)
        advance(1)
    report["database"] = measure_database(data, MEMORY_RESULTS)
    advance(1)
    with Server(data) as server:
        report["round_trip"] = measure_round_trip(server)
        for results in sizes:
            calls = measure_calls(server.post, results, samples, folder)
            report["http"].append(calls.to_json())
            advance(1)
        report["client"] = measure_client(server, CLIENT_RESULTS)
        advance(1)
    report["restart"] = measure_restart(data, COLD_RESULTS)
    advance(2)
    return report

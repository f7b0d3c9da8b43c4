"""Measure how long every view of the console takes: `python -m bench.console [RESULTS]`.

It uses a real server and Debian's Chromium, and one session with that many results (5,000),
recorded under the agents' default. Each time is also printed as a multiple of a render of that
session, so that machines can be compared.
"""

import argparse
import logging
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.console.conftest import Console, Service, running_browser
from tests.console.transcripts import make_run
from tests.server.servers import running_server
from tests.support.command import PROCESS

expect.set_options(timeout=120_000)
SESSION, OTHER = "bench", "another"
AGENT_SETTINGS = {"policy": "contextrender_cache_aware", "budget": "auto", "agent_defaults": True}
FRAMES = """() => new Promise(done => {
    const grid = document.querySelector(".grid");
    const gaps = [];
    let last = performance.now(), count = 0;
    const step = now => {
        gaps.push(now - last);
        last = now;
        grid.scrollLeft += 37;
        grid.scrollTop += 53;
        if (++count < 120) requestAnimationFrame(step); else done(gaps.slice(5));
    };
    requestAnimationFrame(step);
})"""


class TimePrinter:
    """Prints times in milliseconds, each also as a multiple of a render's."""

    def __init__(self, floor: float) -> None:
        self._floor = floor
        print(f"  {'a render of it over HTTP, median of 20':<52} {floor:>8,.0f}", flush=True)

    def __call__(self, label: str, milliseconds: float) -> None:
        print(
            f"  {label:<52} {milliseconds:>8,.0f}  x{milliseconds / self._floor:,.1f}", flush=True
        )


def main() -> None:
    logging.getLogger("httpx").setLevel(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=int, default=5000, help="(%(default)s)")
    results = parser.parse_args().results
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with running_server(data) as server, server.client() as http:
            print_time = TimePrinter(record(Service(server, http), results))
        for measure_part in (measure_terminal, measure_misses, measure_browser):
            # Each part gets a new server, which has nothing of the session in memory.
            with running_server(data) as server, server.client() as http:
                service = Service(server, http)
                for look in ("inspect_session", "timeline", "get_call", "misses"):
                    service(look, session=OTHER)
                measure_part(service, print_time)


def record(service: Service, results: int) -> float:
    """Record a session with this many results, and return the milliseconds of a render of it."""
    print(f"One session of {results:,} results, nothing of it in memory; milliseconds", flush=True)
    service.render(OTHER, make_run(3), **AGENT_SETTINGS)
    run = make_run(results)
    service.render(SESSION, run, **AGENT_SETTINGS)
    reply = service("sync", session=SESSION, messages=run)
    fields = {
        "offset": reply["offset"],
        "prefix": reply["digest"],
        "output": "plan",
        **AGENT_SETTINGS,
    }
    times = [
        milliseconds_of(lambda: service("render", session=SESSION, messages=[], **fields))
        for _ in range(20)
    ]
    return statistics.median(times)


def measure_terminal(service: Service, print_time: TimePrinter) -> None:
    environment = {**os.environ, "CONTEXTRENDER_DATA": str(service.server.data)}
    show = partial(subprocess.run, [*PROCESS, "show", SESSION], env=environment, check=True)
    print_time("contextrender show", milliseconds_of(lambda: show(stdout=subprocess.DEVNULL)))


def measure_misses(service: Service, print_time: TimePrinter) -> None:
    print_time("misses of all turns", milliseconds_of(lambda: list(service.misses(SESSION))))


def measure_browser(service: Service, print_time: TimePrinter) -> None:
    with running_browser() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        measure_views(Console(page, service), print_time)


def measure_views(console: Console, print_time: TimePrinter) -> None:
    """Print how long each view of the session takes, and the list of sessions."""
    console.enter()
    turn_count = measure_timeline(console, print_time)
    measure_calls(console, turn_count, print_time)
    views = (
        ("graph: picture", "graph", "canvas[data-drawn]"),
        ("result: content", "result", ".blocks pre"),
        ("misses: first ones", "misses", ".misses tbody tr"),
        ("savings: first charts", "savings", ".savings .chart"),
    )
    for label, view, selector in views:
        print_time(label, milliseconds_of(partial(open_view, console, view, selector)))
    sessions = f"{console.service.server.url}/console/#/"
    print_time("sessions", milliseconds_of(lambda: wait(console.page, sessions, "table.sessions")))


def measure_timeline(console: Console, print_time: TimePrinter) -> int:
    """Print the times of the timeline and the memory of its page. Return the number of turns."""
    page = console.page
    address = f"{console.service.server.url}/console/#/session/{SESSION}/timeline"
    print_time(
        "timeline: first picture", milliseconds_of(lambda: wait(page, address, ".grid canvas"))
    )
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    print_time("timeline: first contentful paint", paint)
    loading = page.locator(".progress")
    loading_time = milliseconds_of(lambda: loading.wait_for(state="detached", timeout=120_000))
    turns = page.locator(".figure", has_text="Turns").locator("dd").inner_text()
    print_time(f"timeline: all {turns} turns, after that", loading_time)
    print(f"  {'timeline: memory of the page, MB':<52} {page_megabytes(page):>8,.0f}", flush=True)
    page.locator(".grid").focus()
    for _ in range(5):
        page.locator(".grid").press("+")
    gaps: list[float] = page.evaluate(FRAMES)
    print_time("timeline: a frame while scrolling, median", statistics.median(gaps))
    print_time("timeline: a frame while scrolling, worst of 115", max(gaps))
    return int(turns.replace(",", ""))


def measure_calls(console: Console, turn_count: int, print_time: TimePrinter) -> None:
    """Print the times of the views of two calls, and of the newest one with another budget."""
    page = console.page
    for turn, name in ((turn_count, "the newest"), (turn_count // 2, "one in the middle")):
        print_time(f"one call, {name}: picture", milliseconds_of(partial(show_call, console, turn)))
        print_time(
            f"one call, {name}: why, after that", milliseconds_of(lambda: wait_for_reasons(page))
        )
    newest = f"{console.service.server.url}/console/#/session/{SESSION}/call/{turn_count}"
    print_time(
        "one call: with a budget of 3,000 tokens",
        milliseconds_of(
            lambda: wait(page, f"{newest}?budget=3000", ".verdict:has-text('tokens.')")
        ),
    )


def wait(page: Any, address: str, selector: str) -> None:
    page.goto(address)
    page.locator(selector).first.wait_for(timeout=60_000)


def open_view(console: Console, view: str, selector: str) -> None:
    console.open(SESSION, view)
    console.page.locator(selector).first.wait_for(timeout=60_000)


def show_call(console: Console, turn: int) -> None:
    console.open(SESSION, "call", turn)
    expect(console.page.locator(".turn input")).to_have_value(str(turn))
    console.page.locator(".call > div:not(.stale) > .histories .message").first.wait_for()


def wait_for_reasons(page: Any) -> None:
    page.locator(".scores table").wait_for(timeout=60_000)


def page_megabytes(page: Any) -> float:
    """Return the memory of the page's scripts, after a garbage collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"]) / 2**20


def milliseconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


if __name__ == "__main__":
    main()

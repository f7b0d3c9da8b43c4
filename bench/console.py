"""Time to first view and to interaction of every view: `python -m bench.console [RESULTS]`.

A real server and Debian's Chromium, with one session of that many results (5,000), noted as an
agent made its calls under the live default. Beside each time stands how many times a render of
that session it is, in the same run, so that machines can be compared.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.console.conftest import Console, Service, running_browser
from tests.console.transcripts import make_run
from tests.server.servers import served
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


class Said:
    """Times, each beside that of a render."""

    def __init__(self, floor: float) -> None:
        self._floor = floor
        print(f"  {'a render of it over HTTP, median of 20':<52} {floor:>8,.0f}", flush=True)

    def __call__(self, what: str, milliseconds: float) -> None:
        print(f"  {what:<52} {milliseconds:>8,.0f}  x{milliseconds / self._floor:,.1f}", flush=True)


def main() -> None:
    results = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with served(data) as server, server.client() as http:
            said = Said(record(Service(server, http), results))
        for look_at in (in_terminal, all_misses, in_browser):
            # Each a server that has nothing of the session in memory.
            with served(data) as server, server.client() as http:
                service = Service(server, http)
                for look in ("inspect_session", "timeline", "get_call", "misses"):
                    service(look, session=OTHER)
                look_at(service, said)


def record(service: Service, results: int) -> float:
    """A session of so many results, and what a render of it takes."""
    print(f"One session of {results:,} results, nothing of it in memory; milliseconds", flush=True)
    service.render(OTHER, make_run(3), **AGENT_SETTINGS)
    run = make_run(results)
    service.render(SESSION, run, **AGENT_SETTINGS)
    told = service("sync", session=SESSION, messages=run)
    fields = {
        "offset": told["offset"],
        "prefix": told["digest"],
        "output": "plan",
        **AGENT_SETTINGS,
    }
    again = [
        timed(lambda: service("render", session=SESSION, messages=[], **fields)) for _ in range(20)
    ]
    return statistics.median(again)


def in_terminal(service: Service, said: Said) -> None:
    environment = {**os.environ, "CONTEXTRENDER_DATA": str(service.server.data)}
    show = partial(subprocess.run, [*PROCESS, "show", SESSION], env=environment, check=True)
    said("contextrender show", timed(lambda: show(stdout=subprocess.DEVNULL)))


def all_misses(service: Service, said: Said) -> None:
    said("misses of all turns", timed(lambda: list(service.misses(SESSION))))


def in_browser(service: Service, said: Said) -> None:
    with running_browser() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        measure(Console(page, service), said)


def measure(console: Console, said: Said) -> None:
    page, url = console.page, console.service.server.url
    console.enter()
    straight = f"{url}/console/#/session/{SESSION}/timeline"
    said("timeline: first picture", timed(lambda: wait(page, straight, ".grid canvas")))
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    said("timeline: first contentful paint", paint)
    loading = page.locator(".progress")
    whole = timed(lambda: loading.wait_for(state="detached", timeout=120_000))
    turns = page.locator(".figure", has_text="Turns").locator("dd").inner_text()
    said(f"timeline: all {turns} turns, after that", whole)
    page.locator(".grid").focus()
    for _ in range(5):
        page.locator(".grid").press("+")
    gaps: list[float] = page.evaluate(FRAMES)
    said("timeline: a frame while scrolling, median", statistics.median(gaps))
    said("timeline: a frame while scrolling, worst of 115", max(gaps))
    last = int(turns.replace(",", ""))
    for turn, name in ((last, "the newest"), (last // 2, "one in the middle")):
        said(f"one call, {name}: picture", timed(partial(picture, console, turn)))
        said(f"one call, {name}: why, after that", timed(lambda: reasons(page)))
    said("one call: what if, half the budget", timed(lambda: what_if(page)))
    said("graph: picture", timed(lambda: arrive(console, "graph", "canvas[data-drawn]")))
    said("result: content", timed(lambda: arrive(console, "result", ".blocks pre")))
    said("misses: first ones", timed(lambda: arrive(console, "misses", ".misses tbody tr")))
    said("savings: first charts", timed(lambda: arrive(console, "savings", ".savings .chart")))
    said("sessions", timed(lambda: wait(page, f"{url}/console/#/", "table.sessions")))


def wait(page: Any, where: str, waited: str) -> None:
    page.goto(where)
    page.locator(waited).first.wait_for(timeout=60_000)


def arrive(console: Console, view: str, waited: str) -> None:
    console.open(SESSION, view)
    console.page.locator(waited).first.wait_for(timeout=60_000)


def picture(console: Console, turn: int) -> None:
    console.open(SESSION, "call", turn)
    expect(console.page.locator(".turn input")).to_have_value(str(turn))
    console.page.locator(".call > div:not(.stale) > .histories .message").first.wait_for()


def reasons(page: Any) -> None:
    page.locator(".scores table").wait_for(timeout=60_000)


def what_if(page: Any) -> None:
    page.get_by_label("Budget in tokens").fill("3000")
    page.locator(".budget", has_text="of 3,000 tokens").wait_for()


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


if __name__ == "__main__":
    main()

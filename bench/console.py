"""Time to first view and to interaction of every view: `python -m bench.console [RESULTS]`.

A real server and Debian's Chromium, with one session of that many results (1,000), noted as an
agent made its calls. Beside each time stands how many times the floor it is: the same page before
anyone has signed in, in the same run, so that machines can be compared.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.console.browser import running_browser
from tests.console.conftest import COMMAND, Console, Service
from tests.console.transcripts import make_run
from tests.server.servers import running

expect.set_options(timeout=120_000)
SESSION, OTHER = "bench", "another"
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
    """Times, each beside what the page takes without a session."""

    def __init__(self, floor: float) -> None:
        self._floor = floor
        print(f"  {'the floor: the page until it asks for a sign-in':<52} {floor:>8,.0f}")

    def __call__(self, what: str, milliseconds: float) -> None:
        print(f"  {what:<52} {milliseconds:>8,.0f}  x{milliseconds / self._floor:,.1f}", flush=True)


def main() -> None:
    results = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        command = [*COMMAND, "serve", "--port", "0", "--data", str(data)]
        token = ""
        for round_ in ("recorded", "read"):  # the second server has nothing in memory
            with running(command, data) as server, server.client() as http:
                token = json.loads((data / "credentials.json").read_text())["token"]
                service = Service(server, token, http)
                if round_ == "recorded":
                    service.render(SESSION, make_run(results), policy="prune")
                    service.render(OTHER, make_run(3))
                    continue
                for look in ("inspect_session", "timeline", "show_call"):
                    service(look, session=OTHER)
                with running_browser() as browser:
                    page = browser.new_page(viewport={"width": 1440, "height": 900})
                    measure(Console(page, service), results)


def measure(console: Console, results: int) -> None:
    page, url = console.page, console.service.server.url
    print(f"One session of {results:,} results, nothing of it in memory; milliseconds")
    asks = "form.login"
    floors = [timed(lambda: wait(page, f"{url}/console/", asks)) for _ in range(9)]
    said = Said(statistics.median(floors))
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
    said("savings: first charts", timed(lambda: arrive(console, "savings", ".savings canvas")))
    said("sessions", timed(lambda: wait(page, f"{url}/console/#/", "table.sessions")))


def wait(page: Any, where: str, waited: str) -> None:
    page.goto(where)
    page.locator(waited).first.wait_for(timeout=60_000)


def arrive(console: Console, view: str, waited: str, item: int | None = None) -> None:
    console.open(SESSION, view, item)
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

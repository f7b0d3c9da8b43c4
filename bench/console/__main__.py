"""Time to first view and to interaction of every view: `python bench/console [RESULTS]`.

A real server and Debian's Chromium, with one session of that many results (1,000).
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "py_bridge")]

from tests.console.browser import running_browser  # noqa: E402
from tests.console.conftest import COMMAND, Console, Service  # noqa: E402
from tests.console.transcripts import make_run  # noqa: E402
from tests.server.servers import running  # noqa: E402

SESSION = "bench"
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


def main() -> None:
    results = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with running([*COMMAND, "serve", "--port", "0", "--data", str(data)], data) as server:
            service = Service(server, json.loads((data / "credentials.json").read_text())["token"])
            service.record(SESSION, make_run(results))
            with running_browser() as browser:
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                measure(Console(page, service), results)


def measure(console: Console, results: int) -> None:
    page, url = console.page, console.service.server.url
    print(f"One session of {results} results, nothing of it computed yet; milliseconds")
    console.enter()
    straight = f"{url}/console/#/session/{SESSION}/timeline"
    said("timeline: first picture", timed(lambda: wait(page, straight, ".grid canvas")))
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    said("timeline: first contentful paint", paint)
    whole = timed(lambda: page.locator(".progress").wait_for(state="detached", timeout=120_000))
    said("timeline: the other turns, as they are recomputed", whole)
    page.locator(".grid").focus()
    for _ in range(5):
        page.locator(".grid").press("+")
    gaps: list[float] = page.evaluate(FRAMES)
    said("timeline: a frame while scrolling, median", statistics.median(gaps))
    said("timeline: a frame while scrolling, worst of 115", max(gaps))
    said("one call: the newest", timed(lambda: arrive(console, "call", ".scores table")))
    said("one call: what if, half the budget", timed(lambda: what_if(page)))
    said("graph: picture", timed(lambda: arrive(console, "graph", "canvas[data-drawn]")))
    said("result: content", timed(lambda: arrive(console, "result", ".blocks pre")))
    said("savings: first charts", timed(lambda: arrive(console, "savings", ".savings canvas")))
    said("sessions", timed(lambda: wait(page, f"{url}/console/#/", "table.sessions")))


def wait(page: Any, where: str, waited: str) -> None:
    page.goto(where)
    page.locator(waited).first.wait_for(timeout=60_000)


def arrive(console: Console, view: str, waited: str) -> None:
    console.open(SESSION, view)
    console.page.locator(waited).first.wait_for(timeout=60_000)


def what_if(page: Any) -> None:
    page.get_by_label("Budget in tokens").fill("3000")
    page.locator(".budget", has_text="of 3,000 tokens").wait_for()


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def said(what: str, milliseconds: float) -> None:
    print(f"  {what:<48} {milliseconds:>8,.0f}", flush=True)


if __name__ == "__main__":
    main()

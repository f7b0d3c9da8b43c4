"""The way of a warm request through the files of the project: how many it enters, how often it
changes file.

    python -m bench.way [--results 100] [--files]

A service in this process answers over HTTP from a session of so many results; its threads, its
event loop and the client are profiled from the request until nothing is left to do for it. A change
of file is a call of a function whose caller, the nearest of ours, is in another file, or a start
of ours by somebody else's code. Each figure is the median of a few requests. The exit code is 1
if a way is longer than its goal.
"""

import argparse
import json
import logging
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

import httpx
import uvicorn
from contextrender_bridge.base.settings import read_again

from bench.sample import Sample
from bench.services import model

ROOT: Final = Path(__file__).resolve().parent.parent
OURS: Final = tuple(
    f"{ROOT / name}{os.sep}" for name in ("graph", "nodes", "py_bridge", "views", "walkers")
)
REQUESTS: Final = 5
QUIET_SECONDS: Final = 0.1
BUDGET: Final = 24_000
GOALS: Final = {
    "render, messages": (38, 190),
    "render, plan": (40, 220),
    "fit": (68, 400),
    "proxied chat": (65, 380),
    "explain": (40, 200),
}
"""The most files and changes of file that each kind of request may have."""


class Profile:
    """Calls of functions of ours, in all threads of this process."""

    def __init__(self) -> None:
        self.entered: Counter[str] = Counter()
        self.changes = 0
        self.latest = 0.0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not (name := frame.f_code.co_filename).startswith(OURS):
            return
        self.latest = time.monotonic()
        self.entered[name] += 1
        before = frame.f_back
        while before is not None and not before.f_code.co_filename.startswith(OURS):
            before = before.f_back
        self.changes += before is None or before.f_code.co_filename != name

    @contextmanager
    def on(self) -> Iterator[None]:
        """For as long as the block takes, and what it began goes on."""
        self.latest = time.monotonic()
        threading.setprofile_all_threads(self)
        try:
            yield
            while (left := self.latest + QUIET_SECONDS - time.monotonic()) > 0:
                time.sleep(left)
        finally:
            threading.setprofile_all_threads(None)


@dataclass
class Way:
    """What one kind of request came to."""

    name: str
    profiles: list[Profile]

    @property
    def files(self) -> int:
        return round(statistics.median(len(one.entered) for one in self.profiles))

    @property
    def changes(self) -> int:
        return round(statistics.median(one.changes for one in self.profiles))

    def within(self, most: tuple[int, int]) -> bool:
        """Whether it has at most so many files and changes."""
        return self.files <= most[0] and self.changes <= most[1]


class Walked:
    """A service in this process, and requests to it in a session each."""

    def __init__(self, url: str, token: str, results: int) -> None:
        from contextrender_bridge.client import ContextRender

        self._results = results
        self._sample = Sample
        headers = {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=60.0, trust_env=False)
        self._client = ContextRender(url, token, timeout=60.0)
        self._token = token

    def all(self) -> Iterator[Way]:
        for output in ("messages", "plan"):
            yield Way(f"render, {output}", self._profiled(self._render(output)))
        yield Way("fit", self._profiled(self._fit()))
        yield Way("proxied chat", self._profiled(self._chat()))
        explain = {"session": "render-plan"}
        yield Way("explain", self._profiled(lambda: self._post("explain", explain)))

    def close(self) -> None:
        self._http.close()
        self._client.close()

    def _profiled(self, request: Callable[[], Any]) -> list[Profile]:
        for _ in range(2):
            request()
        made = []
        for _ in range(REQUESTS):
            with (profile := Profile()).on():
                request()
            made.append(profile)
        return made

    def _post(self, walker: str, fields: dict[str, Any]) -> dict[str, Any]:
        reply = self._http.post(f"/walker/{walker}", json=fields).raise_for_status()
        report: dict[str, Any] = reply.json()["reports"][0]
        return report

    def _render(self, output: str) -> Callable[[], Any]:
        sample, session = self._sample(), f"render-{output}"
        known = self._post("sync", {"session": session, "messages": sample.run(self._results)})

        def request() -> None:
            place = {"offset": known["offset"], "prefix": known["digest"]}
            fields = {"session": session, "messages": sample.turn(), "output": output, **place}
            known.update(self._post("render", fields))

        return request

    def _fit(self) -> Callable[[], Any]:
        sample = self._sample()
        messages = sample.run(self._results)

        def request() -> None:
            assert not self._client.fit("fit", messages, fail_open=False, deadline=60).failure
            messages.extend(sample.turn())

        return request

    def _chat(self) -> Callable[[], Any]:
        sample = self._sample()
        messages = sample.run(self._results)
        # Within a budget that finds itself the history may fit, and nothing is waited for.
        ours = {"token": self._token, "session": "chat", "budget": str(BUDGET)}
        headers = {f"x-contextrender-{name}": value for name, value in ours.items()}

        def request() -> None:
            body = json.dumps({"model": "m", "messages": messages}).encode()
            reply = self._http.post("/v1/chat/completions", content=body, headers=headers)
            assert "x-contextrender-tokens-after" in reply.raise_for_status().headers
            messages.extend(sample.turn())

        return request


@contextmanager
def walked(data: Path, results: int) -> Iterator[Walked]:
    """A service over an empty folder, in threads of this process."""
    from contextrender_bridge.listening import http_config
    from contextrender_bridge.request_guards import guarded
    from contextrender_bridge.server.app import build_app
    from contextrender_bridge.server.process.loading import warm_up

    app = build_app(data)
    warm_up()
    server = uvicorn.Server(http_config(app, http=guarded(64, 10.0)))
    server.config.port = 0
    serving = threading.Thread(target=server.run)
    serving.start()
    while not server.started and serving.is_alive():
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    token = app.state.service.accounts.local_token()
    requests = Walked(f"http://127.0.0.1:{port}", token, results)
    try:
        yield requests
    finally:
        requests.close()
        server.should_exit = True
        serving.join()


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.way", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--results", type=int, default=100, help="in the session (%(default)s)")
    parser.add_argument("--files", action="store_true", help="list each request's files and calls")
    args = parser.parse_args()
    os.environ.setdefault("CONTEXTRENDER_EMBED_MODEL", "wordllama")
    os.environ["CONTEXTRENDER_RENDER_TIMEOUT"] = "60"
    logging.disable(logging.WARNING)

    longer = False
    with model() as upstream, tempfile.TemporaryDirectory() as folder:
        os.environ["CONTEXTRENDER_UPSTREAM"] = f"{upstream}/v1"
        read_again()  # an import may have read the settings before
        with walked(Path(folder) / "data", args.results) as requests:
            print(f"{'':<20}{'files':>7}{'changes':>9}{'calls':>8}")
            for way in requests.all():
                calls = sum(way.profiles[-1].entered.values())
                goal = GOALS[way.name]
                verdict = "" if way.within(goal) else f"goal {goal[0]} and {goal[1]}"
                longer = longer or bool(verdict)
                row = f"{way.name:<20}{way.files:>7}{way.changes:>9}{calls:>8}  {verdict}"
                print(row.rstrip(), flush=True)
                if args.files:
                    for name, count in way.profiles[-1].entered.most_common():
                        print(f"{count:>12}  {Path(name).relative_to(ROOT)}")
    return 1 if longer else 0


if __name__ == "__main__":
    sys.exit(main())

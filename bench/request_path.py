"""Count the files of the project that a warm request enters, and its changes of file.

    python -m bench.request_path [--results 100] [--files]

A service in this process answers over HTTP from a session with that many results. Its threads, its
event loop and the client are profiled from the request until all work for it is done. A change of
file is a call of a project function whose nearest calling project function is in another file, or
that has none. Each figure is the median of a few requests. The exit code is 1 if a request exceeds
its limits.
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
from contextrender_bridge.base.settings import forget_settings

from bench.sample import Sample
from bench.services import scripted_model

ROOT: Final = Path(__file__).resolve().parent.parent
PROJECT_FOLDERS: Final = tuple(
    f"{ROOT / name}{os.sep}" for name in ("graph", "nodes", "py_bridge", "views", "walkers")
)
REPEATS: Final = 5
QUIET_SECONDS: Final = 0.1
BUDGET: Final = 24_000
LIMITS: Final = {
    "render, messages": (38, 190),
    "render, plan": (40, 220),
    "fit": (68, 400),
    "proxied chat": (65, 380),
    "explain": (40, 200),
}
"""The largest numbers of files and changes of file for each kind of request."""


class Profile:
    """A profile of calls of project functions, in all threads of this process."""

    def __init__(self) -> None:
        self.calls_by_file: Counter[str] = Counter()
        self.changes = 0
        self.latest_call = 0.0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call of a project function, and whether it comes from another file."""
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(PROJECT_FOLDERS):
            return
        self.latest_call = time.monotonic()
        self.calls_by_file[name] += 1
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PROJECT_FOLDERS):
            caller = caller.f_back
        self.changes += caller is None or caller.f_code.co_filename != name

    @contextmanager
    def profile_threads(self) -> Iterator[None]:
        """Profile while the block runs, and afterwards until its work has been idle for a while."""
        self.latest_call = time.monotonic()
        threading.setprofile_all_threads(self)
        try:
            yield
            while (remaining := self.latest_call + QUIET_SECONDS - time.monotonic()) > 0:
                time.sleep(remaining)
        finally:
            threading.setprofile_all_threads(None)


@dataclass
class RequestPath:
    """The profiles of one kind of request."""

    name: str
    profiles: list[Profile]

    @property
    def files(self) -> int:
        return round(statistics.median(len(profile.calls_by_file) for profile in self.profiles))

    @property
    def changes(self) -> int:
        return round(statistics.median(profile.changes for profile in self.profiles))

    def is_within(self, limits: tuple[int, int]) -> bool:
        """Return whether the files and changes keep to the limits."""
        return self.files <= limits[0] and self.changes <= limits[1]


class RequestRunner:
    """Sends each kind of request, in a session of its own, to a service in this process."""

    def __init__(self, url: str, token: str, results: int) -> None:
        from contextrender_bridge.client import ContextRender

        self._results = results
        self._sample = Sample
        headers = {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=60.0, trust_env=False)
        self._client = ContextRender(url, token, timeout=60.0)
        self._token = token

    def all(self) -> Iterator[RequestPath]:
        """Send requests of each kind, and yield their profiles."""
        for output in ("messages", "plan"):
            yield RequestPath(f"render, {output}", self._profile(self._render(output)))
        yield RequestPath("fit", self._profile(self._fit()))
        yield RequestPath("proxied chat", self._profile(self._chat()))
        explain = {"session": "render-plan"}
        yield RequestPath("explain", self._profile(lambda: self._post("explain", explain)))

    def close(self) -> None:
        self._http.close()
        self._client.close()

    def _profile(self, request: Callable[[], Any]) -> list[Profile]:
        """Return the profiles of `REPEATS` requests, after two that warm up."""
        for _ in range(2):
            request()
        profiles = []
        for _ in range(REPEATS):
            with (profile := Profile()).profile_threads():
                request()
            profiles.append(profile)
        return profiles

    def _post(self, walker: str, fields: dict[str, Any]) -> dict[str, Any]:
        reply = self._http.post(f"/walker/{walker}", json=fields).raise_for_status()
        report: dict[str, Any] = reply.json()["reports"][0]
        return report

    def _render(self, output: str) -> Callable[[], Any]:
        sample, session = self._sample(), f"render-{output}"
        prefix = self._post("sync", {"session": session, "messages": sample.run(self._results)})

        def request() -> None:
            place = {"offset": prefix["offset"], "prefix": prefix["digest"]}
            fields = {"session": session, "messages": sample.turn(), "output": output, **place}
            prefix.update(self._post("render", fields))

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
        # A fixed budget, because the history could fit an automatic one and not be rendered.
        options = {"token": self._token, "session": "chat", "budget": str(BUDGET)}
        headers = {f"x-contextrender-{name}": value for name, value in options.items()}

        def request() -> None:
            body = json.dumps({"model": "m", "messages": messages}).encode()
            reply = self._http.post("/v1/chat/completions", content=body, headers=headers)
            assert "x-contextrender-tokens-after" in reply.raise_for_status().headers
            messages.extend(sample.turn())

        return request


@contextmanager
def running_service(data: Path, results: int) -> Iterator[RequestRunner]:
    """Run a service over an empty folder in threads of this process; yield its requests."""
    from contextrender_bridge.listening import http_config
    from contextrender_bridge.request_guards import guarded_protocol
    from contextrender_bridge.server.app import build_app
    from contextrender_bridge.server.process.loading import warm_up

    app = build_app(data)
    warm_up()
    server = uvicorn.Server(http_config(app, http=guarded_protocol(64, 10.0)))
    server.config.port = 0
    serving = threading.Thread(target=server.run)
    serving.start()
    while not server.started and serving.is_alive():
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    token = app.state.service.accounts.local_token()
    requests = RequestRunner(f"http://127.0.0.1:{port}", token, results)
    try:
        yield requests
    finally:
        requests.close()
        server.should_exit = True
        serving.join()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.request_path", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--results", type=int, default=100, help="in the session (%(default)s)")
    parser.add_argument("--files", action="store_true", help="list each request's files and calls")
    args = parser.parse_args()
    os.environ.setdefault("CONTEXTRENDER_EMBED_MODEL", "wordllama")
    os.environ["CONTEXTRENDER_RENDER_TIMEOUT"] = "60"
    logging.disable(logging.WARNING)

    are_within_limits = True
    with scripted_model() as upstream, tempfile.TemporaryDirectory() as folder:
        os.environ["CONTEXTRENDER_UPSTREAM"] = f"{upstream}/v1"
        forget_settings()  # an import may have read the settings before
        with running_service(Path(folder) / "data", args.results) as requests:
            print(f"{'':<20}{'files':>7}{'changes':>9}{'calls':>8}")
            for path in requests.all():
                print_path(path, with_files=args.files)
                are_within_limits = are_within_limits and path.is_within(LIMITS[path.name])
    return 0 if are_within_limits else 1


def print_path(path: RequestPath, *, with_files: bool) -> None:
    """Print the figures of one kind of request, and its limits if they are exceeded."""
    calls_by_file = path.profiles[-1].calls_by_file
    files, changes = LIMITS[path.name]
    verdict = "" if path.is_within((files, changes)) else f"goal {files} and {changes}"
    calls = calls_by_file.total()
    row = f"{path.name:<20}{path.files:>7}{path.changes:>9}{calls:>8}  {verdict}"
    print(row.rstrip(), flush=True)
    if with_files:
        for name, count in calls_by_file.most_common():
            print(f"{count:>12}  {Path(name).relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())

"""The service as a process of its own, called over one kept-alive connection."""

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.credentials import FILE_NAME, Credentials
from contextrender_bridge.wire import Json
from in_process import EVENTS_A_RESULT
from sample import Sample
from session import Session
from times import Times

START_SECONDS = 180.0
HEALTH_SAMPLES = 200
CLIENT_SAMPLES = 50
RESTARTS = 3

_SERVE = """
import sys
from pathlib import Path
from contextrender_bridge.server.serve import serve
serve("127.0.0.1", 0, Path(sys.argv[1]))
"""


class Server:
    """A server over a data folder, which outlives it."""

    def __init__(self, data: Path) -> None:
        """Starts it and waits until it answers; `seconds` says how long that took."""
        left_out = ("CONTEXTRENDER_URL", "CONTEXTRENDER_TOKEN", "CONTEXTRENDER_MODEL")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        start = time.perf_counter()
        (data / FILE_NAME).unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, str(data)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.credentials = self._ready(data)
        self.seconds = time.perf_counter() - start
        self.http = httpx.Client(
            base_url=self.credentials.url,
            headers={"Authorization": f"Bearer {self.credentials.token}"},
            timeout=120.0,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self._process.terminate()
        self._process.wait()

    def post(self, walker: str, fields: Json) -> bytes:
        """One request."""
        reply = self.http.post(f"/walker/{walker}", json=fields)
        reply.raise_for_status()
        return reply.content

    def resident_bytes(self) -> int:
        """Its memory, shared libraries included."""
        command = ["ps", "-o", "rss=", "-p", str(self._process.pid)]
        return 1024 * int(subprocess.run(command, capture_output=True, check=True).stdout)

    def _ready(self, data: Path) -> Credentials:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            if (data / FILE_NAME).exists():
                found = Credentials(**json.loads((data / FILE_NAME).read_text()))
                try:
                    httpx.get(f"{found.url}/healthz", timeout=1.0, trust_env=False)
                    return found
                except httpx.TransportError:
                    pass
            time.sleep(0.01)
        raise SystemExit("bench/latency: the server did not start")


def measure_round_trip(server: Server) -> dict[str, Any]:
    """The smallest request there is."""
    times = Times()
    for _ in range(HEALTH_SAMPLES):
        times.measure(lambda: server.http.get("/healthz"))
    return dict(times.to_json())


def measure_client(server: Server, results: int) -> dict[str, Any]:
    """Renders by the Python client, which is given the whole message list every time."""
    sample, times = Sample(), Times()
    messages = sample.run(results)
    credentials = server.credentials
    with ContextRender(credentials.url, credentials.token) as client:
        client.render("client", messages)
        for _ in range(CLIENT_SAMPLES):
            messages += sample.turn()
            times.measure(partial(client.render, "client", messages))
    return {"results": results, "render": times.to_json()}


def measure_restart(data: Path, results: int) -> dict[str, Any]:
    """From a stopped server to its answer for a session recorded before."""
    ready, first, second = Times(), Times(), Times()
    with Server(data) as server:
        session = Session(server.post, "restarted")
        session.fill(results)
        session.call("render", [], Times())
    for _ in range(RESTARTS):
        with Server(data) as server:
            session._post = server.post
            ready.seconds.append(server.seconds)
            session.call("render", [], first)
            session.call("render", [], second)
    times = {"ready": ready.to_json(), "first": first.to_json(), "second": second.to_json()}
    return {"results": results, "events": results * EVENTS_A_RESULT + 2, **times}

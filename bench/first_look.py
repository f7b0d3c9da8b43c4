"""Measure the first request about a long session: `python -m bench.first_look [CALLS]`.

`explain` and `get_call` are called for the newest of that many model calls (5,000). The server is
restarted before each request, so that nothing of the session is in memory.
"""

import logging
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.console.conftest import Service
from tests.console.transcripts import make_run
from tests.server.servers import running_server

SESSION = "bench"
SETTINGS = {"policy": "contextrender_cache_aware", "budget": "auto", "agent_defaults": True}
REPEATS = 3


def main() -> None:
    logging.getLogger("httpx").setLevel(logging.WARNING)
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        record(data, calls)
        print(
            f"Seconds for the last of {calls:,} calls of one session, in a new server", flush=True
        )
        for endpoint in ("explain", "get_call"):
            seconds = min(time_first(data, endpoint, calls) for _ in range(REPEATS))
            print(f"  {endpoint:<10} {seconds:6.2f}", flush=True)


def record(data: Path, calls: int) -> None:
    """Record a session with this many answered calls."""
    messages = make_run(calls * 13 // 10)  # enough results for this many calls
    answers = [index for index, each in enumerate(messages) if each["role"] == "assistant"]
    with running_server(data) as server, server.client() as http:
        Service(server, http).render(SESSION, messages[: answers[calls - 1] + 1], **SETTINGS)
        server.stop(signal.SIGTERM)


def time_first(data: Path, endpoint: str, turn: int) -> float:
    """Return the seconds that a new server takes to answer for this turn."""
    with running_server(data) as server, server.client() as http:
        service = Service(server, http)
        service("list_sessions")
        start = time.perf_counter()
        service(endpoint, session=SESSION, turn=turn)
        seconds = time.perf_counter() - start
        server.stop(signal.SIGTERM)
    return seconds


if __name__ == "__main__":
    main()

"""Measure the first look at a long session: `python -m bench.first_look [CALLS]`.

`explain` and `get_call` are asked for the newest of that many model calls (5,000). The server is
started again before each request, so that nothing of the session is in memory.
"""

import logging
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.console.conftest import Service
from tests.console.transcripts import make_run
from tests.server.servers import served

SESSION = "bench"
SETTINGS = {"policy": "contextrender_cache_aware", "budget": "auto", "agent_defaults": True}
REPEATS = 3


def main() -> None:
    logging.getLogger("httpx").setLevel(logging.WARNING)
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        turn = record(data, calls)
        print(f"Call {turn:,} of one session, in a server just started; seconds", flush=True)
        for endpoint in ("explain", "get_call"):
            seconds = min(time_first(data, endpoint, turn) for _ in range(REPEATS))
            print(f"  {endpoint:<10} {seconds:6.2f}", flush=True)


def record(data: Path, calls: int) -> int:
    """Record a session of so many calls and return the turn of the newest."""
    results = calls * 13 // 10
    with served(data) as server, server.client() as http:
        service = Service(server, http)
        messages = make_run(results)
        answers = 0
        for end, message in enumerate(messages):
            answers += message["role"] == "assistant"
            if answers > calls:
                messages = messages[:end]
                break
        service.render(SESSION, messages, **SETTINGS)
        view = service("explain", session=SESSION)
        server.stop(signal.SIGTERM)
    return int(view["turn"])


def time_first(data: Path, endpoint: str, turn: int) -> float:
    """Return the seconds that a server just started takes to answer for this turn."""
    with served(data) as server, server.client() as http:
        service = Service(server, http)
        service("list_sessions")
        start = time.perf_counter()
        service(endpoint, session=SESSION, turn=turn)
        seconds = time.perf_counter() - start
        server.stop(signal.SIGTERM)
    return seconds


if __name__ == "__main__":
    main()

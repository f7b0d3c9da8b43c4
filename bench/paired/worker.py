"""One version's walkers over a session of so many results: times a call for each line on stdin.

It runs with the other checkout as its working folder and measures through that one's bench/latency.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path.cwd() / "bench" / "latency"))

from in_process import forget, store
from session import Session
from times import Times


def main() -> None:
    """Answers until stdin ends."""
    with tempfile.TemporaryDirectory() as folder, store(Path(folder) / "data") as post:
        session = Session(post, "s")
        session.fill(int(sys.argv[1]))
        session.call("render", [], Times())
        print("ready", flush=True)
        for line in sys.stdin:
            print(json.dumps(measured(session, line.strip())), flush=True)


def measured(session: Session, call: str) -> float:
    """Seconds of one call."""
    if call == "cold":
        forget()
    walker = "sync" if call == "sync" else "render"
    fresh = session.sample.turn() if call in ("render", "sync") else []
    start = time.perf_counter()
    session.call(walker, fresh, Times())
    return time.perf_counter() - start


if __name__ == "__main__":
    main()

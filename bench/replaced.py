"""What visiting nodes without reading them saves (docs/runtime.md).

    python -m bench.replaced

Renders of one session with 500 results, in one process, with and without it in turn: medians of
processor time, as ratios to the whole.
"""

import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("CONTEXTRENDER_EMBED_MODEL", "wordllama")

from bench.figures import Times
from bench.session import Session, in_process

RESULTS, ROUNDS, CALLS = 500, 30, 5


def main() -> None:
    """Prints a line for each."""
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder, in_process(Path(folder) / "data") as post:
        session = Session(post, "replaced")
        session.fill(RESULTS)
        ways: dict[str, Callable[[], Any]] = {
            "whole": nullcontext,
            "without stand_in": _loading,
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                with way():
                    begun = time.process_time()
                    for _ in range(CALLS):
                        session.call("render", session.sample.turn(), Times())
                    seconds[name].append(time.process_time() - begun)
    whole = statistics.median(seconds["whole"])
    for name, some in seconds.items():
        print(f"{name:<20} {statistics.median(some) / whole:.2f}")


def _loading() -> Any:
    """Every node that is visited is read."""
    import graph.show as show  # type: ignore[import-not-found]

    return patch.object(show, "event_in_memory", lambda history, message, number, id: id)


if __name__ == "__main__":
    main()

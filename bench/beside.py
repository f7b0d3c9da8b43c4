"""Other libraries on the same runs, each in an environment of its own (bench/peers)."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.figures import Times
from bench.peers.catalogue import PEERS
from bench.peers.driving import Worker
from bench.peers.environments import Unavailable, python_of
from bench.sample import Sample
from engine.call.request import DEFAULT_BUDGET
from engine.text.tokens import counter_for

CACHE: Final = Path("~/.cache/contextrender-bench").expanduser()
BESIDE: Final = ("langchain trim_messages", "LiteLLM compress")
SECONDS: Final = 4.0
FEWEST, MOST = 3, 20


def beside(sizes: tuple[int, ...]) -> Iterator[tuple[str, int, Times | str]]:
    """What each takes to shorten runs of these sizes to the default budget; else why it cannot."""
    for peer in (peer for peer in PEERS if peer.name in BESIDE):
        try:
            with Worker(python_of(peer, CACHE), peer) as worker:
                for results in sizes:
                    yield peer.name, results, _shortened(worker, results)
        except Unavailable as reason:
            yield peer.name, 0, str(reason)


def _shortened(worker: Worker, results: int) -> Times | str:
    # LiteLLM's fails on null, which is what an assistant that only calls says.
    messages = [{**m, "content": m["content"] or ""} for m in Sample().run(results)]
    outside = sum(map(counter_for(None).message, messages[:2]))
    worker.open(messages)
    times = Times()
    end = time.monotonic() + SECONDS
    while len(times.seconds) < FEWEST or (len(times.seconds) < MOST and time.monotonic() < end):
        answer: dict[str, Any] = worker.shorten(len(messages), DEFAULT_BUDGET + outside)
        if "error" in answer:
            return str(answer["error"])
        times.seconds.append(answer["ms"] / 1000)
    return times

"""Two other libraries on the same runs, each in an environment of its own (bench/peers)."""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from contextrender_bridge.wire import Json
from sample import Sample

from engine.call.request import DEFAULT_BUDGET
from engine.text.tokens import counter_for

PEERS: Final = Path(__file__).resolve().parent.parent / "peers"
CACHE: Final = Path("~/.cache/contextrender-bench").expanduser()
BESIDE: Final = ("langchain trim_messages", "LiteLLM compress")
SECONDS: Final = 4.0
FEWEST, MOST = 3, 20


def measure_peers(sizes: Sequence[int], done: Callable[[], None]) -> list[dict[str, Any]]:
    """What each makes of runs of these sizes under the default budget, and how long it takes."""
    sys.path.append(str(PEERS))
    from catalogue import PEERS as CATALOGUE
    from driving import Worker
    from environments import Unavailable, python_of

    rows: list[dict[str, Any]] = []
    for peer in (peer for peer in CATALOGUE if peer.name in BESIDE):
        try:
            with Worker(python_of(peer, CACHE), peer) as worker:
                for results in sizes:
                    rows.append(_row(peer, results, *_shortened(worker, results)))
                    done()
        except Unavailable as reason:
            rows.append({"name": peer.name, "unavailable": str(reason)})
    return rows


def judged(shown: Sequence[Json], whole: Sequence[Json]) -> dict[str, Any]:
    """What is sound about a shortened history: its tokens in the budget, its pairs, its task."""
    outside = [message.get("content") for message in whole[:2]]
    charged = [message for message in shown if message.get("content") not in outside]
    calls = {c["id"] for message in shown for c in message.get("tool_calls") or ()}
    results = {message["tool_call_id"] for message in shown if message["role"] == "tool"}
    counter = counter_for(None)
    return {
        "tokens": sum(map(counter.message, charged)),
        "orphans": len(calls ^ results),
        "has_task": any(message.get("content") == outside[1] for message in shown),
    }


def _shortened(worker: Any, results: int) -> tuple[list[float], dict[str, Any]]:
    # LiteLLM's fails on null, which is what an assistant that only calls says.
    messages = [{**m, "content": m["content"] or ""} for m in Sample().run(results)]
    outside = sum(map(counter_for(None).message, messages[:2]))
    worker.open(messages)
    times: list[float] = []
    end = time.monotonic() + SECONDS
    while len(times) < FEWEST or (len(times) < MOST and time.monotonic() < end):
        answer = worker.shorten(len(messages), DEFAULT_BUDGET + outside)
        if "error" in answer:
            return [], {"error": answer["error"]}
        times.append(answer["ms"])
    return times, judged(answer["messages"], messages)


def _row(peer: Any, results: int, times: list[float], judgement: dict[str, Any]) -> dict[str, Any]:
    made = {"name": peer.name, "requirements": peer.requirements, "results": results, **judgement}
    return made | {"p50": statistics.median(times), "samples": len(times)} if times else made

"""Delete a long session while others write: how long it takes, and how long they wait.

The service is in this process, over SQLite in a temporary folder. Read the ratios: times depend on
the machine and on what else it does.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
GOAL_SECONDS = 2.0
AT_ONCE = 999


def main() -> int:
    """Measures and prints; 1 where the goal was missed."""
    parser = argparse.ArgumentParser(prog="bench/deletes", description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="in the session (%(default)s)")
    args = parser.parse_args()
    os.environ["CONTEXTRENDER_EMBED_MODEL"] = "none"
    sys.path[:0] = [str(ROOT), str(ROOT / "py_bridge")]
    with tempfile.TemporaryDirectory(prefix="contextrender-bench-") as folder:
        figures = measured(Path(folder), args.events)
    print(json.dumps(figures, indent=1))
    goal = GOAL_SECONDS * args.events / 20_000
    met = figures["delete_seconds"] <= max(goal, 0.5)
    print(f"goal {goal:.1f} s: {'met' if met else 'missed'}")
    return 0 if met else 1


def measured(data: Path, events: int) -> dict[str, Any]:
    """Seconds, and the waits of a small call that writes, without and during the delete."""
    from contextrender_bridge.paths import app_dir
    from contextrender_bridge.server.accounts import Accounts
    from contextrender_bridge.server.runtime import Runtime

    runtime = Runtime(app_dir(), data)
    accounts = Accounts(runtime, data)
    caller = accounts.caller(accounts.local_token())
    assert caller is not None

    def call(walker: str, **fields: Any) -> Any:
        reply = runtime.call(walker, lambda: dict(fields), caller.root)
        return json.loads(reply)["reports"][0]

    recorded = _timed(lambda: _record(call, "long", events))
    quiet = _others(call, threading.Event(), most=60)
    size = (data / "store.db").stat().st_size
    done, waits = threading.Event(), []
    beside = threading.Thread(target=lambda: waits.extend(_others(call, done)))
    beside.start()
    deleted = _timed(lambda: call("delete_session", session="long"))
    done.set()
    beside.join()
    left = (data / "store.db").stat().st_size
    runtime.close()
    return {
        "events": events,
        "record_seconds": round(recorded, 2),
        "delete_seconds": round(deleted, 2),
        "record_per_delete": round(recorded / deleted, 1),
        "others_quiet_ms": _spread(quiet),
        "others_meanwhile_ms": _spread(waits),
        "stored_mb": [round(size / 2**20, 1), round(left / 2**20, 1)],
    }


def _record(call: Any, session: str, events: int) -> None:
    offset, prefix = 0, ""
    messages = list(_messages(events))
    for start in range(0, len(messages), AT_ONCE):
        fields = {"offset": offset, "prefix": prefix}
        view = call("sync", session=session, messages=messages[start : start + AT_ONCE], **fields)
        offset, prefix = view["offset"], view["digest"]


def _messages(events: int) -> Iterator[dict[str, Any]]:
    """Steps of three events: a text, a call and a result of some 2,000 characters."""
    for step in range(events // 3):
        function = {"name": "look", "arguments": json.dumps({"item": f"ITEM_{step}"})}
        call = {"id": f"c{step}", "type": "function", "function": function}
        yield {"role": "assistant", "content": f"Step {step}.", "tool_calls": [call]}
        text = f"ITEM_{step + 1} " + " ".join(f"{step * 7919 + n:x}" for n in range(320))
        yield {"role": "tool", "tool_call_id": f"c{step}", "content": text}


def _others(call: Any, done: threading.Event, most: int = 100_000) -> list[float]:
    """Seconds of each call of another session that writes a message."""
    waits = []
    number = 0
    while not done.is_set() and number < most:
        messages = [{"role": "user", "content": f"{time.time_ns()}"}]
        waits.append(_timed(lambda: call("sync", session="other", messages=messages)))  # noqa: B023
        number += 1
    return waits


def _timed(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _spread(seconds: list[float]) -> dict[str, float]:
    """Half of them within, and the longest, in milliseconds."""
    ordered = sorted(seconds) or [0.0]
    return {
        "calls": len(seconds),
        "p50": round(ordered[len(ordered) // 2] * 1e3, 1),
        "longest": round(ordered[-1] * 1e3, 1),
    }


if __name__ == "__main__":
    sys.exit(main())

"""Checks that a process gives the memory of a large request back."""

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import httpx
from contextrender_bridge.base.wire import Json

MEGABYTE = 2**20
BUSY = 503


def resident(pid: int) -> int:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def large_history() -> list[Json]:
    """Return a history of 53 MB."""
    lines = "".join(f"{number}: a line of the file, item_{number}\n" for number in range(1530))
    call = {"type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages: list[Json] = [{"role": "user", "content": "Read the file."}]
    for number in range(1000):
        calls = [{**call, "id": str(number)}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        text = f"{number} {lines}"
        messages.append({"role": "tool", "tool_call_id": str(number), "content": text})
    return messages


def check_release(worker: int, before: int) -> None:
    """Wait until memory is at most 1.3 times what it was before; fail after 150 seconds.

    The proxy records a call for 30 seconds at most, and frees memory 30 seconds later.
    """
    largest, deadline = resident(worker), time.monotonic() + 150
    while (memory := resident(worker)) > 1.3 * before and time.monotonic() < deadline:
        time.sleep(0.5)
    sizes = f"{before / MEGABYTE:.0f}, {largest / MEGABYTE:.0f}, {memory / MEGABYTE:.0f} MB"
    assert memory <= 1.3 * before, sizes


def check_release_after_calls(
    worker: int, address: str, paths: Sequence[str] = ("/chat/completions",)
) -> None:
    """Send a small and then a large history to each path of the proxy at `address`, and check that
    the worker's memory is released."""
    history = large_history()
    for messages in (history[:3], history):
        before = resident(worker)
        for path in paths:
            # Another history per path, because a call may still be recorded.
            first = {"role": "user", "content": f"Read the file for {path}."}
            body = {"model": "m", "messages": [first, *messages[1:]]}
            send = partial(httpx.post, f"{address}{path}", json=body, timeout=300)
            while (reply := send()).status_code == BUSY:  # A busy machine records it for a minute.
                time.sleep(2)
            assert reply.status_code == 200, reply.text
    check_release(worker, before)


def children(process: int) -> list[int]:
    """Return the ids of a supervisor's workers."""
    place = Path(f"/proc/{process}/task/{process}/children")
    return [int(pid) for pid in place.read_text().split()]

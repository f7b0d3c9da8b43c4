"""Run in a peer's own environment and shorten histories, one JSON line each.

A request is {"known": n, "messages": messages, "budget": tokens}: shorten the first n messages of
the previous requests, followed by these. The answer is {"messages", "ms"} or {"error"}. Connections
are refused, so a peer cannot download anything.
"""

import importlib
import json
import os
import socket
import sys
import time
from pathlib import Path


def main() -> None:
    adapter, variant, *path = sys.argv[1:]
    sys.path[:0] = [*path, str(Path(__file__).resolve().parent)]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    socket.socket.connect = _refuse
    shorten = importlib.import_module(adapter).make(variant)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    run: list[object] = []
    for line in sys.stdin:
        request = json.loads(line)
        run = run[: request["known"]] + request["messages"]
        start = time.perf_counter()
        try:
            shortened = shorten(run, request["budget"])
            answer = {"messages": shortened, "ms": 1000 * (time.perf_counter() - start)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


def _refuse(*_):
    raise ConnectionRefusedError("no connections while measuring")


main()

"""Runs in a peer's own environment: shortens the histories it is sent, one JSON line each.

Takes {"kept": n, "messages": messages, "budget": tokens}: shorten the first n of the messages that
came before, and these behind them.
Answers {"messages", "ms"} or {"error"}.
Nothing may connect anywhere: what a peer would have to download counts as not there.
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
        asked = json.loads(line)
        run = run[: asked["kept"]] + asked["messages"]
        start = time.perf_counter()
        try:
            made = shorten(run, asked["budget"])
            answer = {"messages": made, "ms": 1000 * (time.perf_counter() - start)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


def _refuse(*_):
    raise ConnectionRefusedError("no connections while measuring")


main()

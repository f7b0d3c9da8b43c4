"""What the store and a session cost by themselves, measured in this process."""

import json
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

from contextrender_bridge.server import build_app
from contextrender_bridge.server.serving import warm_up

from evaluation.progress import progress

sys.path.append(str(Path(__file__).resolve().parent.parent / "latency"))
from sample import Sample

WRITERS = 16
SAMPLES = 60
STEP = 500


class Inside:
    """The service's walkers, called without HTTP."""

    def __init__(self) -> None:
        self.data = Path(tempfile.mkdtemp(prefix="bench-")) / "data"
        self._app = build_app(self.data)
        self.service = self._app.state.service
        warm_up()

    def user(self, name: str) -> str:
        """The root of a new user."""
        caller = self.service.accounts.caller(
            self.service.accounts.token(self.service.accounts.add(name))
        )
        return str(caller.root)

    def call(self, walker: str, root: str, **fields: Any) -> Any:
        """The report of a walker."""
        body = self.service.runtime.call(walker, lambda: json.loads(json.dumps(fields)), root)
        return json.loads(body)["reports"][0]

    def close(self) -> None:
        self.service.close()


def append(inside: Inside, events: int) -> dict[str, Any]:
    """Processor time of recording a call and its result, early and late in one session."""
    root, sample = inside.user("append"), Sample(5)
    report: dict[str, Any] = {}

    def record(turns: int) -> list[float]:
        nonlocal report
        taken = []
        for _ in range(turns):
            known = {"offset": report["offset"], "prefix": report["digest"]} if report else {}
            messages = sample.turn()
            begun = time.thread_time()
            report = inside.call("sync", root, session="s", messages=messages, **known)
            taken.append(time.thread_time() - begun)
        return taken

    report = inside.call("sync", root, session="s", messages=sample.run(30))
    early = statistics.median(record(SAMPLES))
    while report["offset"] * 1.5 < events:
        many = [message for _ in range(STEP // 2) for message in sample.turn()]
        known = {"offset": report["offset"], "prefix": report["digest"]}
        report = inside.call("sync", root, session="s", messages=many, **known)
    late = statistics.median(record(SAMPLES))
    return {
        "events": events,
        "early_ms": early * 1000,
        "late_ms": late * 1000,
        "times": late / early,
    }


def new_sessions(inside: Inside, count: int) -> dict[str, Any]:
    """New sessions of one user, as rows, from 16 writers at once."""
    from uuid import UUID

    from graph.runtime.identity import session_id_of
    from graph.runtime.unit import Unit

    store, owner = inside.service.runtime.store, UUID(inside.user("many"))
    session = store.kinds.number_of("nodes.session", "Session")
    owns = store.kinds.number_of("nodes.edges", "Owns")

    def write(_: int) -> None:
        id, unit = session_id_of(owner, uuid4().hex), Unit()
        unit.insert.append((owner, id, session, time.time(), b"\0\2\0\0\0{}"))
        unit.join.append((owner, owner, owns, id, None))
        store.write(unit)

    begun = time.perf_counter()
    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(write, range(count)))
    return {"count": count, "per_second": count / (time.perf_counter() - begun)}


def many(inside: Inside, users: int, sessions: int, results: int = 50) -> dict[str, Any]:
    """So many users' sessions: what they take, and what listing and opening one costs."""
    from graph.runtime.caches import PASTS, WORKING_SET

    roots = [inside.user(f"user-{number}") for number in range(users)]
    messages = [Sample(seed).run(results) for seed in range(8)]
    before = _disk(inside)
    PASTS.limit, WORKING_SET.limit = 0, 2**40
    WORKING_SET.clear()
    with progress("Recording sessions", sessions) as advance:
        for number in range(sessions):
            root, name = roots[number % users], f"run-{number}"
            inside.call("sync", root, session=name, messages=messages[number % 8])
            advance(1)
            if number == 199:
                live = WORKING_SET.nbytes / 200
                WORKING_SET.limit = 64 * 2**20
    if sessions < 200:
        live = WORKING_SET.nbytes / sessions

    def taken(walker: str, **fields: Any) -> float:
        seconds = []
        for root in roots[:20]:
            WORKING_SET.clear()
            begun = time.thread_time()
            inside.call(walker, root, **fields)
            seconds.append(time.thread_time() - begun)
        return statistics.median(seconds) * 1000

    size = _disk(inside) - before
    opened = []
    for number in range(min(20, sessions)):
        WORKING_SET.clear()
        root, name = roots[number % users], f"run-{number}"
        begun = time.thread_time()
        inside.call("inspect_session", root, session=name)
        opened.append(time.thread_time() - begun)
    return {
        "users": users,
        "sessions": sessions,
        "list_ms": taken("list_sessions"),
        "open_ms": statistics.median(opened) * 1000,
        "live_kb": live / 1024,
        "disk_kb_a_session": size / sessions / 1024,
        "bytes_a_result": size / sessions / results,
    }


def _disk(inside: Inside) -> int:
    """Bytes of SQLite's file, its log folded in."""
    inside.service.runtime.store.reclaim()
    return (inside.data / "store.db").stat().st_size

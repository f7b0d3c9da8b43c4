"""Memory of what is recorded, and bytes of it in the database."""

import gc
import json
import sqlite3
import tracemalloc
from pathlib import Path
from typing import Any

from contextrender_bridge.settings import current_settings
from over_http import Server
from sample import Sample
from session import Session
from times import Times

from engine.call.render_call import render_call
from engine.call.request import DEFAULT_BUDGET
from engine.history.history import History
from engine.models.embeddings import load_embedder
from engine.parameters import Parameters
from engine.text.tokens import content_text, counter_for


def measure_working_set(results: int) -> dict[str, Any]:
    """A session in memory: its own estimate beside what Python's allocator counts."""
    body = json.dumps(Sample().run(results))
    _remember("[]")
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    history = _remember(body)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "results": results,
        "bytes": after - before,
        "estimated": history.nbytes,
        "texts": history.text_bytes,
        "values": history.reuse.nbytes,
        "vectors": history.vectors.nbytes,
    }


def measure_server(server: Server, results: int) -> dict[str, Any]:
    """The server's memory before and after a session; the first one also grows its heap."""
    before = server.resident_bytes()
    session = Session(server.post, "resident")
    session.fill(results)
    session.call("render", [], Times())
    return {"results": results, "before": before, "after": server.resident_bytes()}


def measure_database(data: Path, results: int) -> dict[str, Any]:
    """Rows and bytes by kind, and the whole file with its log folded in, per result."""
    connection = sqlite3.connect(data / "store.db")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    kinds = connection.execute(
        "SELECT name, count(*), sum(bytes) FROM ("
        "SELECT kind, length(data) + 32 AS bytes FROM nodes UNION ALL "
        "SELECT kind, coalesce(length(data), 0) + 48 FROM edges"
        ") JOIN kinds ON number = kind GROUP BY name"
    ).fetchall()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    size = pages * connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    rows = [
        {"kind": kind, "rows": rows / results, "bytes": total / rows, "share": total / size}
        for kind, rows, total in sorted(kinds, key=lambda row: -row[2])
        if rows >= results / 10
    ]
    return {"results": results, "bytes": size / results, "kinds": rows}


def _remember(body: str) -> History:
    """A history as the service holds it after a render."""
    counter, history = counter_for(None), History()
    history.extend(json.loads(body), counter)

    def text_of(message: int) -> str:
        return content_text((history.messages[message] or {}).get("content"))

    render_call(
        history,
        budget=DEFAULT_BUDGET,
        policy="contextrender",
        parameters=Parameters(),
        counter=counter,
        embedder=load_embedder(current_settings().embed_model),
        text_of=text_of,
    )
    history.vectors.unsaved.clear()
    return history

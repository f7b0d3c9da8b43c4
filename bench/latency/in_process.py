"""The service's core in this process: everything but HTTP."""

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from beside import judged
from contextrender_bridge.paths import app_dir
from contextrender_bridge.server.accounts import Accounts
from contextrender_bridge.server.runtime import Runtime
from contextrender_bridge.server.serving import warm_up
from contextrender_bridge.settings import current_settings
from sample import Sample
from session import Post, Session
from times import Times

from engine.call.render_call import render_call
from engine.call.request import DEFAULT_BUDGET
from engine.history.history import History
from engine.models.embeddings import load_embedder
from engine.parameters import Parameters
from engine.text.tokens import content_text, counter_for

COLD_SAMPLES = 5
EVENTS_A_RESULT = 3
BATCH_MESSAGES = 100


@contextmanager
def store(data: Path) -> Iterator[Post]:
    """Walkers over a new database in `data`, warmed up like a server."""
    data.mkdir(mode=0o700)
    runtime = Runtime(app_dir(), data)
    accounts = Accounts(runtime, data)
    caller = accounts.caller(accounts.local_token())
    assert caller is not None
    root = caller.root
    warm_up()
    try:
        yield lambda walker, fields: runtime.call(walker, lambda: fields, root)
    finally:
        runtime.close()


def forget() -> None:
    """Drops the working set: what a restart does, without the start."""
    importlib.import_module("graph.runtime.writing").WORKING_SET.clear()


def measure_cold(post: Post, results: int, name: str) -> dict[str, Any]:
    """A render with nothing new whose session must be read from the database; what it shows."""
    session, times = Session(post, name), Times()
    session.fill(results)
    session.call("render", [], Times())
    for _ in range(COLD_SAMPLES):
        forget()
        session.call("render", [], times)
    events = results * EVENTS_A_RESULT + len(session.sample.opening())
    shown = judged(session.reply["messages"], session.messages)
    return {"results": results, "events": events, "cold": times.to_json(), "shown": shown}


def measure_ingest(post: Post, results: int) -> dict[str, Any]:
    """Recording the same run message by message, and a hundred at a time; per stored event."""
    one, many = Times(), Times()
    for times, size in ((one, 1), (many, BATCH_MESSAGES)):
        session = Session(post, f"ingest-{size}")
        messages = Sample(seed=1).run(results)
        for start in range(0, len(messages), size):
            session.call("sync", messages[start : start + size], times)
    events = len(messages) + results
    return {
        "results": results,
        "event_1": one.over(events / len(one.seconds)).to_json(),
        "event_100": many.over(events / len(many.seconds)).to_json(),
    }


def measure_engine(results: int, samples: int) -> dict[str, Any]:
    """Recording and ranking as pure functions: no graph, no database."""
    counter, embedder = counter_for(None), load_embedder(current_settings().embed_model)
    history, sample = History(), Sample()
    record, render = Times(), Times()

    def text_of(message: int) -> str:
        return content_text((history.messages[message] or {}).get("content"))

    def ranked() -> None:
        rendered = render_call(
            history,
            budget=DEFAULT_BUDGET,
            policy="contextrender",
            parameters=Parameters(),
            counter=counter,
            embedder=embedder,
            text_of=text_of,
        )
        history.vectors.unsaved.clear()
        json.dumps([rendered.visible, rendered.omitted, rendered.tokens_after])

    history.extend(sample.run(results), counter)
    ranked()
    for _ in range(samples):
        fresh = sample.turn()
        record.measure(partial(history.extend, fresh, counter))
        render.measure(ranked)
    return {"results": results, "record": record.to_json(), "render": render.to_json()}

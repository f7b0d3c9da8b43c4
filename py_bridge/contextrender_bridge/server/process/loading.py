"""Loads what the first request would wait for, and says what is being waited for."""

from __future__ import annotations

import gc
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.local_service import STARTING, telling
from contextrender_bridge.server.process.machine import give_back

if TYPE_CHECKING:
    from starlette.applications import Starlette


def telling_why_it_is_slow() -> AbstractContextManager[None]:
    """Says on stderr what is waited for, unless the block ends within a moment."""
    return telling("Loading the service", STARTING, _say)


def open_app(data: Path) -> Starlette:
    """The app over `data`, ready for its first call, in a process that is not only its server."""
    with telling_why_it_is_slow():
        from contextrender_bridge.server.app import build_app

        app = build_app(data)
        try:
            load_ahead()
        except BaseException:
            app.state.service.close()
            raise
    return app


def warm_up() -> None:
    """Load what the first request would wait for, and leave it all out of garbage collection.

    A collection that looks through the runtime's 90,000 objects stops every request for 20 ms.
    """
    load_ahead()
    gc.collect()
    give_back()
    gc.freeze()


def load_ahead() -> None:
    """What walks share, the tokenizer, the embedder and what asks a model; its name is checked, and
    nobody asked.

    After `build_app`.
    """
    from engine.models.embeddings import load_embedder
    from engine.models.providers import check_model, load_writers
    from engine.text.tokens import counter_for

    counter_for(None).text("")
    settings = current_settings()
    for name, model in (("EMBED_MODEL", settings.embed_model), ("MODEL", settings.model)):
        if model and model not in ("wordllama", "none"):
            check_model(f"CONTEXTRENDER_{name}", model)
    if settings.model:
        load_writers()
    embedder = load_embedder(settings.embed_model)
    if embedder.name == "wordllama":  # others ask a provider
        embedder.embed([""])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

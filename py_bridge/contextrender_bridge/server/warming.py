"""What the first request would wait for, loaded before it; and whoever waits is told why."""

from __future__ import annotations

import sys
import threading

from contextrender_bridge.settings import current_settings

SLOW_SECONDS = 3.0


def tell_why_it_is_slow() -> threading.Timer:
    """Says on stderr what is waited for, unless it is cancelled within a moment."""
    slow = threading.Timer(SLOW_SECONDS, _tell)
    slow.daemon = True
    slow.start()
    return slow


def load_ahead() -> None:
    """What walks share, the tokenizer, the embedder and what asks a model; its name is checked, and
    nobody asked.

    After `build_app`.
    """
    from engine.models.embeddings import load_embedder
    from engine.models.providers import check_model
    from engine.models.writers import load_writers
    from engine.text.tokens import counter_for
    from graph.runtime.dispatch import shorten_walks

    shorten_walks()
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


def _tell() -> None:
    print("Loading the Jac runtime; the first start compiles it.", file=sys.stderr, flush=True)

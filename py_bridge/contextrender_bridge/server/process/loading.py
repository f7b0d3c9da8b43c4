"""Loading of what the first request would otherwise wait for."""

import gc
import sys

from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.process_memory import give_back


def warm_up() -> None:
    """Load what the first request would wait for, and exempt all objects from garbage collection.

    A collection that reads the runtime's 90,000 objects stops every request for 20 ms.
    """
    load_models()
    gc.collect()
    give_back()
    gc.freeze()


def has_compiled() -> bool:
    """Return whether this process has compiled Jac, at a first start or after a change.

    The compiler, with llvmlite, uses 80 MB that a process which finds compiled files does not need.
    """
    return "jaclang.compiler.passes" in sys.modules


def load_models() -> None:
    """Load what walkers share: the tokenizer, the embedder and the code that calls models.

    The names of models are checked, and no provider is called. Call it after `build_app`.
    """
    from contextrender_bridge.engine.models.embeddings import load_embedder
    from contextrender_bridge.engine.models.providers import check_model, load_writers
    from contextrender_bridge.engine.text.tokens import counter_for

    counter_for(None).text("")
    settings = current_settings()
    for name, model in (("EMBED_MODEL", settings.embed_model), ("MODEL", settings.model)):
        if model and model not in ("wordllama", "none"):
            check_model(f"CONTEXTRENDER_{name}", model)
    if settings.model:
        load_writers()
    embedder = load_embedder(settings.embed_model)
    if embedder.name == "wordllama":  # Another embedder would call a provider.
        embedder.embed([""])

"""Loading, before the first request, of models and code for which it would otherwise wait."""

import gc
import sys

from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.process_memory import return_free_memory


def warm_up() -> None:
    """Load what the first request needs, and exclude all present objects from garbage collection.

    Otherwise each garbage collection would visit the runtime's 90,000 objects, and stop every
    request for 20 ms.
    """
    load_models()
    gc.collect()
    return_free_memory()
    gc.freeze()


def has_compiled() -> bool:
    """Return whether this process has compiled Jac code.

    It has at the first start, and after a change of the code. The compiler uses 80 MB, which a new
    process does not need, because it finds the compiled files.
    """
    return "jaclang.compiler.passes" in sys.modules


def load_models() -> None:
    """Load what walkers share: the tokenizer, the embedder and the code that calls models.

    Check the names of models, but call no provider. Call this function after `build_app`.
    """
    from contextrender_bridge.engine.models.embeddings import load_embedder
    from contextrender_bridge.engine.models.providers import check_model, result_writer
    from contextrender_bridge.engine.text.tokens import counter_for

    counter_for(None).text("")  # This loads the tokenizer.
    settings = current_settings()
    for name, model in (("EMBED_MODEL", settings.embed_model), ("MODEL", settings.model)):
        if model and model not in ("wordllama", "none"):
            check_model(f"CONTEXTRENDER_{name}", model)
    if settings.model:
        result_writer()
    embedder = load_embedder(settings.embed_model)
    if embedder.name == "wordllama":  # Another embedder would call a provider.
        embedder.embed([""])

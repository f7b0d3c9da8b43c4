"""LiteLLM, imported late, offline and quiet: importing it takes over a second.

Import this module before anything that imports LiteLLM itself: it turns the price map's fetch off.
"""

import importlib
import logging
import threading
from functools import cache
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.installing import how_to_install
from contextrender_bridge.base.settings import set_for_library
from contextrender_bridge.base.usage import Usage

set_for_library("LITELLM_LOCAL_MODEL_COST_MAP", "True")

_import_lock = threading.Lock()


def litellm() -> Any:
    """The litellm module, with its bundled price map (no fetch) and without its log output.

    Raises ImportError when LiteLLM is not installed.
    """
    with _import_lock:
        return _load()


@cache
def _load() -> Any:
    module: Any = importlib.import_module("litellm")
    # Retries are the caller's: LiteLLM's embedding reads max_retries=0 as this default (its #7003).
    module.DEFAULT_MAX_RETRIES = 0
    module.suppress_debug_info = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return module


def check_model(setting: str, model: str) -> None:
    """Imports LiteLLM now rather than in a request. Raises CommandError for a model of nobody's."""
    try:
        litellm().get_llm_provider(model)
    except ImportError:
        raise CommandError(f"{setting} {model!r} needs {how_to_install('models')}.") from None
    except Exception:  # litellm's own, of a class that its versions differ in
        raise CommandError(f"{setting} {model!r} is no model that LiteLLM knows.") from None


def input_limit(model: str, default: int) -> int:
    """Tokens `model` accepts as input, from LiteLLM's bundled map, else `default`."""
    module = litellm()
    try:
        info = module.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for a model it does not list
        return default
    return int(info.get("max_input_tokens") or info.get("max_tokens") or default)


def usage_of(response: Any) -> Usage:
    """The tokens a chat completion reports; none where it reports nothing."""
    usage = response.get("usage") or {}
    return Usage(
        fresh=int(usage.get("prompt_tokens") or 0),
        output=int(usage.get("completion_tokens") or 0),
    )

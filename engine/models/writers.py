"""The modules in which a model writes texts. They are Jac, and the first import takes seconds."""

import importlib
from typing import Any, Final

WRITERS: Final = ("compaction", "summary_writer")


def writer(name: str) -> Any:
    """One of them. Raises ImportError where byLLM is not installed."""
    importlib.import_module("jaclang")
    return importlib.import_module(f".{name}", __package__)


def load_writers() -> None:
    """All of them, before a request needs one."""
    for name in WRITERS:
        writer(name)

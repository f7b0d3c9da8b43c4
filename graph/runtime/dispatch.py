"""Two costs of jaclang 0.16.7 that every step of a walk pays, without what they buy.

Each runtime function is a hook: a call binds its arguments by `inspect` and asks every plugin. And
each `[here->:Next:->]` disassembles its filter again. Together they were a quarter of a render's
processor time.
"""

from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

from jaclang.jac0core.runtime import JacRuntimeInterface, plugin_manager
from jaclang.runtimelib import planner


def shorten() -> None:
    """Once all plugins are registered: one that comes later is not asked where only jaclang was."""
    _call_directly()
    _read_filters_once()


def _call_directly() -> None:
    """Where jaclang's own is the only plugin, its function stands in for the hook."""
    for name, hook in vars(plugin_manager.hook).items():
        plugins = hook.get_hookimpls()
        if len(plugins) == 1 and hook._firstresult:
            setattr(JacRuntimeInterface, name, staticmethod(plugins[0].function))


def _read_filters_once() -> None:
    """A filter's code is the same each time it is made, and so is what it is made of."""
    original: Callable[[Any], bool] = planner._filter_has_predicates
    if hasattr(original, "__wrapped__"):
        return

    @cache
    def of_code(code: CodeType) -> bool:
        return original(code)

    def has_predicates(filter: Any) -> bool:
        code = getattr(filter, "__code__", None)
        return original(filter) if code is None else of_code(code)

    has_predicates.__wrapped__ = original  # type: ignore[attr-defined]
    planner._filter_has_predicates = has_predicates

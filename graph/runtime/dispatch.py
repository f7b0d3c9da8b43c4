"""Two costs of jaclang 0.16.7 that every step of a walk pays, without what they buy.

Each `[here->:Next:->]` disassembles its filter again, which is the same code each time. And each of
the runtime's functions is a hook, eighty times a render: it binds its arguments by `inspect`, so
that plugins may take some of them, also where jaclang's own is the only one.
"""

from collections.abc import Callable
from functools import cache, wraps
from inspect import Parameter, iscoroutinefunction, signature
from types import CodeType
from typing import Any

from jaclang.jac0core.runtime import JacRuntimeInterface, plugin_manager
from jaclang.runtimelib import planner  # type: ignore[attr-defined]

Function = Callable[..., Any]


def shorten_walks() -> None:
    """Once a process; again does nothing more. A plugin that comes later is asked all the same."""
    _read_filters_once()
    for name, hook in vars(plugin_manager.hook).items():
        asks_all: Function = getattr(JacRuntimeInterface, name)
        plugins = hook.get_hookimpls()
        if len(plugins) == 1 and hook._firstresult and _is_plain(asks_all):
            shorter = _asks_directly(asks_all, hook, plugins[0])
            setattr(JacRuntimeInterface, name, staticmethod(shorter))


def _is_plain(asks_all: Function) -> bool:
    """Whether it takes arguments by name alone, and is not shortened already."""
    if hasattr(asks_all, "__wrapped__") or iscoroutinefunction(asks_all):
        return False
    kinds = {parameter.kind for parameter in signature(asks_all).parameters.values()}
    return not kinds & {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}


def _asks_directly(asks_all: Function, hook: Any, only: Any) -> Function:
    function = only.function

    @wraps(asks_all)
    def call(*args: object, **named: object) -> object:
        plugins = hook.get_hookimpls()
        if len(plugins) == 1 and plugins[0] is only:
            return function(*args, **named)
        return asks_all(*args, **named)

    return call


def _read_filters_once() -> None:
    """What a filter's code is made of is found once for all that are made of it."""
    original: Callable[[Any], bool] = planner._filter_has_predicates
    if hasattr(original, "__wrapped__"):
        return

    @cache
    def of_code(code: CodeType) -> bool:
        return original(code)

    @wraps(original)
    def has_predicates(filter: Any) -> bool:
        code = getattr(filter, "__code__", None)
        return original(filter) if code is None else of_code(code)

    planner._filter_has_predicates = has_predicates

"""A cost of jaclang 0.16.7 that every step of a walk pays: each `[here->:Next:->]` disassembles its
filter again, which is the same code each time.
"""

from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

from jaclang.runtimelib import planner  # type: ignore[attr-defined]


def read_filters_once() -> None:
    """What a filter's code is made of is found once for all that are made of it."""
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

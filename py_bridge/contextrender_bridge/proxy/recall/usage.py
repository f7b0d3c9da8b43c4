"""What several requests used together: the agent made one call, and its provider bills them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contextrender_bridge.base.wire import Json


def added(before: Mapping[str, Any], usage: Any) -> Json:
    """The sum of two usages, number by number; what is no number is the latter's."""
    if not isinstance(usage, Mapping):
        return dict(before)
    return {**before, **{name: _sum(before.get(name), usage[name]) for name in usage}}


def _sum(before: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return added(before if isinstance(before, Mapping) else {}, value)
    if _is_number(before) and _is_number(value):
        return before + value
    return before if value is None and before is not None else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

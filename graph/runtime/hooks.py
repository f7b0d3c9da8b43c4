"""Where jaclang 0.16.7 itself would leak contents, lose a failure or read what it need not.

Registered with its plugin manager, as any plugin's.
"""

from typing import Any

from jaclang.jac0core.archetype import Anchor, Archetype
from jaclang.jac0core.osp_kernel import _current_scope, osp_report
from jaclang.jac0core.runtime import hookimpl, plugin_manager

from graph.runtime.memory import CURRENT


class Hooks:
    """For walkers over our store; every other program keeps the runtime's own."""

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def log_report(expr: object, custom: bool) -> bool | None:
        """`report` without printing the value."""
        if custom or _current_scope() is None:
            return None
        osp_report(expr)
        return True

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def commit(anchor: object) -> bool | None:
        """`commit()` in a walker really commits."""
        memory = CURRENT.get(None)
        if memory is None:
            return None
        memory.flush()
        return True

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def destroy(objs: Any) -> bool | None:
        """`del` without loading every edge of a node, and every node at its other end, first."""
        memory = CURRENT.get(None)
        if memory is None:
            return None
        for each in objs if isinstance(objs, list) else [objs]:
            if isinstance(each, (Anchor, Archetype)):
                memory.delete((each if isinstance(each, Anchor) else each.__jac__).id)
        return True


def register() -> None:
    """Once a process; again does nothing more."""
    if not plugin_manager.is_registered(Hooks):
        plugin_manager.register(Hooks, name="contextrender-runtime")

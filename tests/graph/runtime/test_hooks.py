"""Functions of the runtime that jaclang alone implements."""

from collections.abc import Callable
from typing import Any

import pytest
from jaclang.jac0core.runtime import JacRuntimeInterface, hookimpl, plugin_manager

from graph.runtime.request import register_hooks


class Later:
    """A plugin that comes when the hooks are there."""

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def check_read_access(to: object) -> bool | None:
        return to == "mine" or None


def test_they_are_called_without_the_manager_until_a_plugin_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register_hooks()
    (own,) = plugin_manager.hook.check_read_access.get_hookimpls()
    monkeypatch.setattr(own, "function", lambda to: f"jaclang's own for {to}")
    ask: Callable[..., Any] = JacRuntimeInterface.check_read_access
    asked: list[object] = []
    manager = type(plugin_manager.hook.check_read_access)
    through = manager.__call__

    def ask_manager(self: Any, **named: object) -> object:
        asked.append(named)
        return through(self, **named)

    monkeypatch.setattr(manager, "__call__", ask_manager)
    assert ask("theirs") == ask(to="theirs") == "jaclang's own for theirs"
    assert asked == []
    plugin_manager.register(Later, name="later")
    try:
        assert ask("mine") is True
        assert ask("theirs") == "jaclang's own for theirs"
    finally:
        plugin_manager.unregister(Later)
    assert len(asked) == 2 and ask("mine") == "jaclang's own for mine"

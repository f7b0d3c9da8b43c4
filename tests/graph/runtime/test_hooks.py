"""Runtime functions that only jaclang implements are called directly."""

import pytest
from contextrender_bridge.runtime.request import register_hooks
from jaclang.jac0core.runtime import JacRuntimeInterface, hookimpl, plugin_manager


class Later:
    """A plugin that is registered after the hooks."""

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def check_read_access(to: object) -> bool | None:
        return to == "mine" or None


def test_hooks_bypass_plugin_manager_until_a_plugin_is_registered() -> None:
    register_hooks()
    (get_hookimpl,) = plugin_manager.hook.check_read_access.get_hookimpls()
    assert JacRuntimeInterface.check_read_access.__code__ is get_hookimpl.function.__code__
    # jaclang's function lacks this default; its plugin manager fills it in.
    assert JacRuntimeInterface.check_access_level.__defaults__ == (False,)
    plugin_manager.register(Later, name="later")
    try:
        assert JacRuntimeInterface.check_read_access("mine") is True
    finally:
        plugin_manager.unregister(Later)
    with pytest.raises(AttributeError):
        JacRuntimeInterface.check_read_access("mine")

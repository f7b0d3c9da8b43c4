"""The parts of the runtime that a request uses: hooks, edges and pauses of garbage collection."""

import gc
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from uuid import uuid4

import pytest
from contextrender_bridge.runtime.collection import pause_garbage_collection
from contextrender_bridge.runtime.memory import CURRENT
from contextrender_bridge.runtime.queries import fetch_edges
from contextrender_bridge.runtime.request import register_hooks
from jaclang.jac0core.runtime import JacRuntimeInterface, hookimpl, plugin_manager


def test_collection_continues_after_the_last_of_several_pauses() -> None:
    barrier = Barrier(3)

    def pause(number: int) -> bool:
        with pause_garbage_collection():
            barrier.wait(timeout=60)
            return gc.isenabled()

    with ThreadPoolExecutor(3) as pool:
        assert not any(pool.map(pause, range(3)))
    assert gc.isenabled()


def test_collection_continues_after_an_error() -> None:
    with pytest.raises(KeyError), pause_garbage_collection(), pause_garbage_collection():
        raise KeyError
    assert gc.isenabled()


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


def test_edge_that_leads_from_another_node_is_skipped_or_an_error() -> None:
    node, other, target = uuid4(), uuid4(), uuid4()
    edge_rows = [(node, 1, target, None), (other, 1, target, None)]
    store = SimpleNamespace(edges_from=lambda owner, ids, kind: iter(edge_rows))
    memory = SimpleNamespace(owner=uuid4(), store=store, number=lambda kind: 1)
    token = CURRENT.set(memory)  # type: ignore[arg-type]
    try:
        assert fetch_edges([node], object, strict=False) == [(node, target, {})]
        with pytest.raises(ValueError, match="another node"):
            fetch_edges([node], object)
    finally:
        CURRENT.reset(token)

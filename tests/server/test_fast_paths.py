"""Noticing changes without serializing: whatever the runtime would store must count."""

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from contextrender_bridge.paths import app_dir
from contextrender_bridge.server.accounts import Accounts
from contextrender_bridge.server.runtime import Runtime
from jaclang.jac0core.archetype import AccessLevel
from jaclang.jac0core.runtime import JacRuntimeInterface as Jac
from jaclang.runtimelib.serializer import Serializer

from graph.runtime.fast_paths import state_hash, value_hash

VALUES = [None, "None", "", 0, False, 0.0, -1, -2, "0", [], [""], ["a", "b"], {}, {"a": 1}]


@pytest.fixture
def result(tmp_path: Path) -> Iterator[Any]:
    """The anchor of a result that is joined to a call, as it is read from the store."""
    runtime = Runtime(app_dir(), tmp_path)
    accounts = Accounts(runtime, tmp_path)
    caller = accounts.caller(accounts.local_token())
    assert caller is not None
    events = importlib.import_module("nodes.events")
    with runtime.unit_of_work(caller.root) as memory:
        node = events.ToolResult(text="found", tokens=3)
        Jac.connect(Jac.get_context().get_root(), node)
        memory.flush()
        identity = node.__jac__.id
    with runtime.unit_of_work(caller.root) as memory:
        yield memory.get(identity)
    runtime.close()


CHANGES: dict[str, Callable[[Any], object]] = {
    "a text": lambda anchor: setattr(anchor.archetype, "text", "Found"),
    "a number": lambda anchor: setattr(anchor.archetype, "tokens", 4),
    "a sign": lambda anchor: setattr(anchor.archetype, "position", -1),
    "an edge more": lambda anchor: anchor.edges.append(anchor.edges[0]),
    "an edge less": lambda anchor: anchor.edges.clear(),
    "the version": lambda anchor: setattr(anchor, "version", anchor.version + 1),
    "the owner": lambda anchor: setattr(anchor, "root", uuid4()),
    "what all may do": lambda anchor: setattr(anchor.access, "all", AccessLevel.READ),
    "what one may do": lambda anchor: anchor.access.roots.anchors.update(x=AccessLevel.READ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_what_is_stored_is_noticed(
    result: Any, change: Callable[[Any], object]
) -> None:
    before, stored = state_hash(result), json.dumps(Serializer.serialize(result))
    assert state_hash(result) == before == result.hash
    change(result)
    assert json.dumps(Serializer.serialize(result)) != stored
    assert state_hash(result) != before


def test_values_that_differ_in_kind_alone_are_told_apart() -> None:
    assert len({value_hash(value) for value in VALUES}) == len(VALUES)


def test_the_runtime_uses_it(result: Any) -> None:
    assert Serializer._compute_hash(result) == state_hash(result) != 0

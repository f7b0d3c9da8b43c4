"""A change of any stored field, or of who may see a node, gives another row, and so is written."""

import importlib
from dataclasses import fields
from types import SimpleNamespace, UnionType
from typing import Any, get_origin, get_type_hints

import pytest
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.server.runtime import load_app
from jaclang.jac0core.archetype import AccessLevel, Permission

from graph.runtime.archetypes import build, encode

TWO: dict[Any, tuple[Any, Any]] = {
    str: ("a", "b"),
    int: (1, 2),
    bool: (False, True),
    float: (1.5, 2.5),
    bytes: (b"a", b"b"),
    UnionType: (1, "a"),
    list: ([], [1]),
    dict: ({}, {"a": 1}),
}
STORED = [
    ("events", ("Message", "ToolCall", "ToolResult", "Compaction")),
    ("session", ("Session", "Branch")),
    ("calls", ("ModelCall", "Continuation")),
    ("summaries", ("SummaryShelf", "HistorySummary")),
    ("links", ("ReadLink",)),
    ("removal", ("Removal",)),
    ("edges", ("Reuse",)),
]


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in STORED for name in names]
)
def test_a_changed_field_is_another_row(module: str, name: str) -> None:
    load_app(app_dir())
    kind = getattr(importlib.import_module(f"nodes.{module}"), name)
    hints = get_type_hints(kind)
    both = {f.name: TWO[get_origin(hints[f.name]) or hints[f.name]] for f in fields(kind)}
    first = {field: values[0] for field, values in both.items()}
    archetype, complete = build(kind, first)
    assert complete
    anchor = SimpleNamespace(archetype=archetype, access=Permission())
    before = encode([anchor])
    assert both
    for field, (old, new) in both.items():
        setattr(archetype, field, new)
        assert encode([anchor]) != before, field
        setattr(archetype, field, old)
    assert encode([anchor]) == before
    anchor.access.all = AccessLevel.READ
    assert encode([anchor]) != before

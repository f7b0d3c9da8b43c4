"""Queries of edges, in a store whose damaged index gives a wrong edge."""

from types import SimpleNamespace
from uuid import uuid4

import pytest
from contextrender_bridge.runtime.memory import CURRENT
from contextrender_bridge.runtime.queries import fetch_edges


def test_edge_that_leads_from_another_node_is_skipped_or_an_error() -> None:
    node, other, target = uuid4(), uuid4(), uuid4()
    found = [(node, 1, target, None), (other, 1, target, None)]
    store = SimpleNamespace(edges_from=lambda owner, ids, kind: iter(found))
    memory = SimpleNamespace(owner=uuid4(), store=store, number=lambda kind: 1)
    token = CURRENT.set(memory)  # type: ignore[arg-type]
    try:
        assert fetch_edges([node], object, strict=False) == [(node, target, {})]
        with pytest.raises(ValueError, match="another node"):
            fetch_edges([node], object)
    finally:
        CURRENT.reset(token)

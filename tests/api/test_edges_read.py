"""Every type of edge is read by a walker of ours: by a hop, as rows, or as the proof of an id."""

import re
from pathlib import Path

import pytest
from contextrender_bridge.paths import app_dir

APP: Path = app_dir()
EDGES = re.findall(r"^edge (\w+)", (APP / "nodes" / "edges.jac").read_text(), re.M)
SOURCES = "\n".join(
    path.read_text() for folder in ("walkers", "graph") for path in (APP / folder).glob("*.jac")
)


def test_there_are_edges() -> None:
    assert {"Owns", "Next", "Reuse"} <= set(EDGES)


@pytest.mark.parametrize("edge", EDGES)
def test_it_is_read(edge: str) -> None:
    hop = rf"\[[^\]\n]*(->:{edge}:->|<-:{edge}:<-)"
    rows = rf"fetch_edges\([^)]*, {edge}\)"
    proof = rf"joined\(\w+, {edge}, "
    assert re.search(f"{hop}|{rows}|{proof}", SOURCES)

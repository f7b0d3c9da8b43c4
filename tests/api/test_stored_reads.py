"""Every type of edge and every stored field is read by a walker of ours, or what it calls.

The walkers work on sessions with everything in them, while their reads are noted: edges where a
hop, the rows of a type or the proof of an id asks for them, fields at the nodes and in rows. Labels
(in nodes/) and the store (graph/runtime/) do not count.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.paths import app_dir
from jaclang.jac0core.archetype import ObjectSpatialPath
from jaclang.jac0core.runtime import EdgeArchetype, NodeArchetype

from graph.runtime import rows
from graph.runtime.changes import LISTED_BY
from graph.runtime.writing import WORKING_SET
from tests.api.conftest import Service, User
from tests.api.endpoints import LOOKS_AT_A_SESSION, example
from tests.api.transcripts import agent_run, assistant, call, result, user
from tests.support.provider_double import chat_reply, provider

RUN = agent_run(12)
LARGE = "\n".join(f"line {n}: all quiet, host-{n % 7}.internal" for n in range(900))
NOTES = {
    "files_read": [],
    "key_observations": ["Order ORD-1000 precedes ORD-1001."],
    "commands_run": [],
    "decisions": [],
    "unresolved_questions": [],
}
WITHOUT_BRANCH = ("export_session", "list_links", "look_at_node", "search")
Reads = set[tuple[str, str]]


def types() -> list[type]:
    modules = [
        importlib.import_module(f"nodes.{n}")
        for n in ("edges", "events", "removal", "session", "summaries")
    ]
    found = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    own = [kind for kind in found if issubclass(kind, NodeArchetype | EdgeArchetype)]
    return [kind for kind in own if kind.__module__.startswith("nodes.")]


def is_ours(depth: int) -> bool:
    """Whether the code that asks is a walker, or what walkers call."""
    path = Path(sys._getframe(depth + 1).f_code.co_filename)
    if not path.is_relative_to(app_dir()):
        return False
    room = path.relative_to(app_dir()).parts
    return room[0] in ("engine", "graph", "views", "walkers") and room[:2] != ("graph", "runtime")


class Row(dict[str, Any]):
    """A row's fields, which note who reads them."""

    def __init__(self, held: dict[str, Any], reads: Reads) -> None:
        super().__init__(held)
        self.reads = reads

    def note(self, name: str) -> None:
        if is_ours(2):
            for kind in types():
                if {field.name for field in fields(kind)} == set(self):
                    self.reads.add((declaring(kind, name), name))

    def __getitem__(self, name: str) -> Any:
        self.note(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.note(name)
        return super().get(name, default)


def declaring(kind: type, name: str) -> str:
    """The class that declares the field."""
    return next(
        (c.__name__ for c in kind.__mro__ if name in vars(c).get("__annotations__", ())), ""
    )


@pytest.fixture
def read_fields(monkeypatch: pytest.MonkeyPatch) -> Reads:
    reads: Reads = set()

    def look(self: object, name: str) -> Any:
        if name[0] != "_" and is_ours(1) and (owner := declaring(type(self), name)):
            reads.add((owner, name))
        return object.__getattribute__(self, name)

    for kind in types():
        if not any(base in types() for base in kind.__bases__):
            monkeypatch.setattr(kind, "__getattribute__", look, raising=False)
    parse = rows.parse
    monkeypatch.setattr(rows, "parse", lambda row: (Row(parse(row)[0], reads), parse(row)[1]))
    return reads


@pytest.fixture
def read_edges(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    reads: set[str] = set()
    for name in ("edge_out", "edge_in", "edge_any"):
        hop = getattr(ObjectSpatialPath, name)

        def hopping(self: Any, edge: Any = None, *rest: Any, _hop: Any = hop, **more: Any) -> Any:
            if edge is not None and is_ours(1):
                named = [edge.__globals__.get(name) for name in edge.__code__.co_names]
                reads.update(kind.__name__ for kind in named if kind in types())
            return _hop(self, edge, *rest, **more)

        monkeypatch.setattr(ObjectSpatialPath, name, hopping)
    for module, name, place in (
        ("graph.reuse_edges", "fetch_edges", 1),
        ("graph.library", "joined", 1),
        ("graph.removal", "joined", 1),
        ("graph.removal", "nodes_before", 1),
    ):
        used = importlib.import_module(module)
        asked = getattr(used, name)

        def asking(*given: Any, _asked: Any = asked, _place: int = place) -> Any:
            reads.add(given[_place].__name__)
            return _asked(*given)

        monkeypatch.setattr(used, name, asking)
    return reads


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A model that compacts and summarises."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        asked = json.dumps(body.get("response_format", ""))
        kept = {"notes": "All quiet.", "quotes": []} if "quotes" in asked else NOTES
        return 200, chat_reply(kept if asked != '""' else "State: a note.")

    with provider(answer) as double:
        monkeypatch.setenv("CONTEXTRENDER_MODEL", "openai/scripted")
        monkeypatch.setenv("OPENAI_API_BASE", double.url)
        monkeypatch.setenv("OPENAI_API_KEY", "scripted")
        yield


def use_everything(who: User, patch: pytest.MonkeyPatch) -> None:
    """Every endpoint, over sessions with every kind of node and edge, in memory and read anew."""
    large = [user("Is all quiet?"), assistant(None, call("a", "log")), result("a", LARGE)]
    for policy in ("contextrender", "contextrender_frozen", "compact"):
        for end in (len(RUN) - 4, len(RUN)):
            WORKING_SET.clear()
            who.api("render", session="s", messages=RUN[:end], budget=900, policy=policy)
    who.api("sync", session="s", messages=[*RUN[:9], assistant(RUN[2]["content"]), user("Why?")])
    for _ in range(2):
        WORKING_SET.clear()
        who.api("render", session="large", messages=large, budget=1500)
    who.api("share_session", session="s")
    for walker in LOOKS_AT_A_SESSION:
        WORKING_SET.clear()
        of_all = {} if walker in WITHOUT_BRANCH else {"branch": 0}
        who.api(walker, **example(walker, "s"), **of_all)
    who.api("end_links", session="s")
    who.api("import_session", session="copy", data=who.api("export_session", session="s"))
    who.api("list_sessions")
    who.api("total_savings")
    with patch.context() as broken:
        broken.setattr("graph.removal.wipe", None)
        assert who.api.post("delete_session", session="copy").status_code == 500
    for session in ("s", "large", "copy"):
        who.api("delete_session", session=session)
    assert not who.graph().nodes


def test_what_is_stored_is_read(
    service: Service,
    read_fields: Reads,
    read_edges: set[str],
    model: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_everything(service.new_user(), monkeypatch)
    kinds = [kind for kind in types() if is_dataclass(kind)]
    edges = {kind.__name__ for kind in kinds if issubclass(kind, EdgeArchetype)}
    assert {"Owns", "Next", "Reuse"} <= edges
    assert edges - read_edges == set()
    stored = {(declaring(kind, f.name), f.name) for kind in kinds for f in fields(kind)}
    assert {("Event", "text"), ("Reuse", "values")} <= stored
    # What the store itself lists nodes by is read there.
    assert {read for read in stored - read_fields if read[1] != LISTED_BY} == set()

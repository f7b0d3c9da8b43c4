"""Inspection, listing, export, import and deletion of sessions."""

import copy
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.runtime.session_lease import WORKING_SET

from tests.api.client import Api
from tests.api.conftest import Service, User
from tests.api.graph import count_rows
from tests.support.transcripts import UNUSUAL, agent_run, assistant, render_calls, result, user

RUN = agent_run(8, lines=5)
REWRITTEN = [*RUN[:6], assistant("Another way."), user("Which?"), *RUN[6:10]]
REWRITTEN_TWICE = [*REWRITTEN[:8], user("No.")]
CANARY = "CANARY_5512"


def record_branches(api: Api, session: str) -> None:
    """Record a session of three branches; the second branch is written last."""
    api("sync", session=session, messages=RUN, settings={"budget": 700, "policy": "recency"})
    api("render", session=session, messages=REWRITTEN)
    api("render", session=session, messages=REWRITTEN_TWICE, policy="contextrender_cache_aware")
    api("sync", session=session, messages=[*REWRITTEN, assistant("Done.")])


def test_inspection_has_shape_and_no_contents(api: Api) -> None:
    record_branches(api, "s")
    report = api("inspect_session", session="s")
    assert report["head"] == 1
    assert report["settings"] == {"budget": 700, "policy": "recency"}
    shape = [(line["number"], line["parent"], line["fork_position"]) for line in report["branches"]]
    assert shape == [(0, -1, 0), (1, 0, 6), (2, 1, 8)]
    assert report["session"]["messages"] == report["branches"][1]["messages"] == len(REWRITTEN) + 1
    assert report["session"]["branches"] == 3
    (tool,) = report["tools"]
    assert (tool["name"], tool["results"]) == ("get_order", 4)
    assert 0 < tool["reused"] <= report["uses"]
    assert api("inspect_session", session="s", branch=0)["tools"][0]["results"] == 8
    api.refused("inspect_session", 404, "not_found", session="s", branch=3)
    api("sync", session="secret", messages=[user(CANARY), *UNUSUAL[2:], result("x", CANARY)])
    assert CANARY not in api.post("inspect_session", session="secret").text


def test_list_is_newest_first_in_pages(api: Api) -> None:
    assert api("list_sessions") == {"sessions": [], "next": None}
    names = [f"run {number}" for number in range(12)]
    for name in names:
        api("sync", session=name, messages=RUN[:2])
    api("sync", session="run 3", messages=RUN[:4])
    for size in (5, 11, 12, 200):
        pages = [page["sessions"] for page in api.pages("list_sessions", "cursor", limit=size)]
        assert [row["session"] for page in pages for row in page] == names[::-1]
        assert {len(page) for page in pages[:-1]} <= {size}
    changed = pages[0][8]
    assert (changed["session"], changed["messages"], changed["results"]) == ("run 3", 4, 1)
    assert changed["updated_at"] > changed["created_at"]
    # Sessions are created and deleted between two pages.
    first = api("list_sessions", limit=2)
    assert [row["session"] for row in first["sessions"]] == ["run 11", "run 10"]
    for name in ("run 11", "run 10", "run 9"):
        api("delete_session", session=name)
    api("sync", session="late", messages=RUN[:2])
    later_pages = api.pages("list_sessions", "cursor", cursor=first["next"], limit=4)
    sessions = [row["session"] for page in later_pages for row in page["sessions"]]
    assert [name for name in sessions if name != "late"] == names[8::-1]


def without_times(export: Json) -> Json:
    """Return the export without call times and shared prefix tokens."""
    branches = [
        branch
        | {"calls": [call | {"at": 0, "tokens": call["tokens"][:4]} for call in branch["calls"]]}
        for branch in export["branches"]
    ]
    return export | {"branches": branches}


def test_import_renders_and_exports_as_the_original(api: Api) -> None:
    record_branches(api, "first")
    api("sync", session="unusual", messages=UNUSUAL, model="gpt-4")
    for name, lines in (("first", (RUN, REWRITTEN, REWRITTEN_TWICE)), ("unusual", (UNUSUAL,))):
        exported = api("export_session", session=name)
        import_reply = api("import_session", session=f"{name} copy", data=exported)
        assert import_reply["offset"] == api("inspect_session", session=name)["session"]["messages"]
        assert import_reply["recorded"] == sum(
            len(branch["messages"]) for branch in exported["branches"]
        )
        for _ in ("remembered", "read again"):
            copied = api("export_session", session=f"{name} copy")
            fields = {"session": f"{name} copy"}
            original = api("export_session", session=name)
            assert without_times(copied) == without_times(original | fields)
            for messages in lines:
                reply = api("render", session=f"{name} copy", messages=messages)
                assert reply | {"session": name} == api("render", session=name, messages=messages)
            WORKING_SET.clear()


def test_import_uses_name_from_export(alice: User, bob: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    data = alice.api("export_session", session="s")
    alice.api.refused("import_session", 409, "conflict", data=data)
    assert bob.api("import_session", data=data)["session"] == "s"


BAD_EXPORTS: list[tuple[str, Any]] = [
    *(("format", KeyError), ("format", "contextrender.session/999")),
    *(("branches", []), ("branches", {}), ("branches.0", 1)),
    *(("branches.1.messages", []), ("branches.1.messages", "x")),
    ("branches.1.messages.0", {"role": "robot", "content": CANARY}),
    *(("branches.0.timestamps", KeyError), ("branches.0.timestamps", [1.0])),
    *(("branches.2.timestamps.0", "now"), ("branches.2.timestamps.0", 10**400)),
    *(("branches.1.parent", parent) for parent in (2, 1, -2)),
    *(("branches.1.fork_position", fork) for fork in (10**6, len(RUN), -1, "6")),
    *(("branches.0.fork_position", 1), ("head", 3), ("head", -1), ("head", KeyError)),
    *(("session", KeyError), ("session", "")),
    *(("settings", []), ("settings.speed", 1), ("settings.budget", 1), ("settings.model", 1)),
]
"""Path of keys and its invalid value; KeyError removes the key."""


@pytest.fixture(scope="module")
def export(service: Service) -> Json:
    api = service.new_user().api
    record_branches(api, "s")
    exported: Json = api("export_session", session="s")
    return exported


def test_invalid_export_is_refused_and_nothing_written(bob: User, export: Json) -> None:
    for path, value in BAD_EXPORTS:
        data = copy.deepcopy(export)
        *way, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        place: Any = data
        for key in way:
            place = place[key]
        if value is KeyError:
            del place[last]
        else:
            place[last] = value
        error = bob.api.refused("import_session", 422, "invalid_request", data=data)
        assert CANARY not in str(error)
    assert not bob.graph().nodes


def test_deletion_removes_every_row(alice: User, bob: User) -> None:
    record_branches(bob.api, "s")
    record_branches(alice.api, "kept")
    before = count_rows(alice.data)
    other_data = [alice.api("export_session", session="kept"), bob.graph()]
    record_branches(alice.api, "s")
    digest = alice.api("sync", session="s", messages=RUN)["digest"]
    nodes = len(alice.graph().nodes)
    reply = alice.api("delete_session", session="s")
    assert reply == {"session": "s", "nodes": nodes - len(alice.graph().nodes)}
    assert count_rows(alice.data) == before
    assert [alice.api("export_session", session="kept"), bob.graph()] == other_data
    alice.api.refused("delete_session", 404, "not_found", session="s")
    removed = {"session": "s", "messages": [], "offset": len(RUN), "prefix": digest}
    assert alice.api.refused("render", 409, "history_diverged", **removed)["recorded"] == 0


def test_deleted_name_can_be_used_again(api: Api) -> None:
    fields = {"session": "s", "messages": RUN, "budget": 600}
    first = api("render", **fields)
    api("delete_session", session="s")
    assert api("render", **fields) == first


LONGER = agent_run(12)
USAGE = {"uncached": 100, "cache_read": 20, "cache_write": 30, "cache_write_1h": 0, "output": 5}


@pytest.fixture
def export_with_usage(alice: User) -> Json:
    """Return the export of a session with usage on its first five calls."""
    render_calls(alice.api, "s", LONGER, budget=700, model="gpt-5.1", client="c")
    answers = [
        position for position, message in enumerate(LONGER) if message["role"] == "assistant"
    ]
    for position in answers[:5]:
        alice.api("record_usage", session="s", usage={"messages": position, **USAGE})
    reply: Json = alice.api("export_session", session="s")
    return reply


WRONG: list[Any] = ["calls", [1], *([{"position": position}] for position in ("2", 3, 999)), [{}]]
WRONG_FIELDS: list[Json] = [
    *({"speed": 1}, {"budget": 1}, {"policy": "magic"}, {"at": "now"}),
    *({"tokens": [1, 2, 3, 4]}, {"tokens": [1, 2, 3, 4, -5]}),
    *({"shown": [1]}, {"shown": [["ShowsComplete", 400]]}, {"results": 400}),
    *({"shown": [["ShowsComplete", 1, {"pieces": []}]]}, {"shown": [["Next", 1]]}),
    *({"shown": [["Drops", 1], ["Drops", 1]]}, {"shown": [["Restores", 1, {}]]}),
    {"shown": [["ShowsExcerpt", 1, {"pieces": [0, 9, 5, 9], "tokens": 1, "kind": "excerpt"}]]},
    {"shown": [["ShowsExcerpt", 1, {"pieces": [0], "tokens": 1, "kind": "excerpt"}]]},
    *({"misses": [[1]]}, {"misses": [[1, {"values": 1, "repeated": 1, "names_only": 1}]]}),
    *({"breakpoints": [-1]}, {"step_budget": -1.0}, {"is_over": 1}, {"again": 1}),
    *({"usage": [1, 2]}, {"usage": [1, 2, 3, 4, 2**50]}),
    *({"delivery": "pigeon"}, {"model": 1}, {"client": "c" * 81}),
]


def test_export_with_invalid_call_is_refused(bob: User, export_with_usage: Json) -> None:
    (branch,) = export_with_usage["branches"]
    first = branch["calls"][0]
    for calls in [*WRONG, *([first | fields] for fields in WRONG_FIELDS), [first, first]]:
        bad = export_with_usage | {"branches": [branch | {"calls": calls}]}
        bob.api.refused("import_session", 422, "invalid_request", data=bad)
    assert not bob.graph().nodes

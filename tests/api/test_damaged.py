"""A missing or corrupted row of a session: no endpoint answers 500, and no other row is lost."""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from hashlib import shake_256
from typing import Any
from uuid import UUID, uuid4

import pytest
from contextrender_bridge.runtime.archetypes import read_problem
from contextrender_bridge.runtime.session_lease import WORKING_SET
from contextrender_bridge.sessions.check import check_owner
from contextrender_bridge.sessions.findings import StoreFinding, repair
from contextrender_bridge.sessions.ids import CALL_EDGES, IdKind, place_of_id, session_id_of
from contextrender_bridge.sessions.set_aside import set_aside
from contextrender_bridge.sessions.user_rows import session_bytes, stored_sessions
from contextrender_bridge.store import rows
from contextrender_bridge.store.opening import open_store
from contextrender_bridge.store.writes import WriteConflict
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.api.client import Api
from tests.api.conftest import Service, User, example
from tests.api.graph import reading
from tests.api.test_links import OPEN, open_link
from tests.support.command import contextrender
from tests.support.transcripts import agent_run, assistant, user

RUN = agent_run(8, lines=5)
OTHER = [*RUN[:9], assistant("Let me start over with ORD-1001."), user("Do.")]
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "noise": lambda data: shake_256(data).digest(len(data) + 1),
    "flipped": lambda data: data[:-9] + bytes([data[-9] ^ 4]) + data[-8:] if data else b"\1",
    "another's": lambda data: b"\0\2\0\0\0{}",
}

IS_TYPED = os.environ.get("TEST_STORE") == "postgres"
PLACES = st.floats(0, 0.999)
Row = tuple[str, Sequence[Any]]
"""A table and the key of a row."""


def record_session(alice: User) -> None:
    """Record a session of two branches."""
    for stop in (5, 9, len(RUN)):
        alice.api(
            "render",
            session="s",
            messages=RUN[:stop],
            policy="contextrender_cache_aware",
            budget=300,
        )
    alice.api("render", session="s", messages=OTHER, budget=300)


def rows_of(alice: User) -> dict[str, list[Row]]:
    """Return every row of the user without the root, by kind, sorted by key."""
    graph = alice.graph()
    rows_by_kind: dict[str, list[Row]] = defaultdict(list)
    for node in graph.nodes.values():
        rows_by_kind[node.kind].append(("nodes", (UUID(node.id),)))
    for edge in graph.edges:
        key = (UUID(edge.source), edge.kind, UUID(edge.target))
        rows_by_kind[edge.kind].append(("edges", key))
    return {kind: sorted(rows) for kind, rows in sorted(rows_by_kind.items())}


def run_on_row(alice: User, row: Row, statement: str, *values: Any) -> list[Any]:
    """Run a statement on this row directly in the database."""
    table, key = row
    is_kind = "kind = (SELECT number FROM kinds WHERE name = ?)"
    condition = "id = ?" if table == "nodes" else f"source = ? AND {is_kind} AND target = ?"
    with reading(alice.data) as run:
        query = f"{statement.format(table)} WHERE owner = ? AND {condition}"
        return run(query, *values, UUID(alice.root), *key)


def stored_data(alice: User, row: Row) -> list[Any]:
    return [bytes(data or b"") for (data,) in run_on_row(alice, row, "SELECT data FROM {}")]


def set_data(alice: User, row: Row, data: bytes) -> None:
    run_on_row(alice, row, "UPDATE {} SET data = ?", data)


def damage(alice: User, row: Row, damage_name: str) -> None:
    if damage_name == "deleted":
        run_on_row(alice, row, "DELETE FROM {}")
    else:
        set_data(alice, row, DAMAGE[damage_name](stored_data(alice, row)[0] or b"x" * 20))


def delete_result(alice: User, position: int) -> Row:
    """Delete the first branch's result at this position and return its row."""
    (node,) = [
        node for node in alice.graph().of("ToolResult") if node.fields["position"] == position
    ]
    row: Row = ("nodes", (UUID(node.id),))
    damage(alice, row, "deleted")
    return row


def check_calls(api: Api, branches: Sequence[int | None] = (None, 0, 1)) -> None:
    for walker in OPEN:
        for branch in branches:
            of_branch: dict[str, Any] = {} if branch is None else {"branch": branch}
            reply = api.post(walker, **example(walker, "s"), **of_branch)
            assert reply.status_code in (200, 404, 422), (walker, reply.text)
            if reply.status_code == 422 and reply.json()["error"]["code"] == "corrupted":
                assert len(reply.json()["error"]["message"].split()) > 5
    assert [session["session"] for session in api("list_sessions")["sessions"]] in (["s"], [])


def expected_lengths(row: Row) -> list[int]:
    """Return the intact messages of each branch once this row is missing."""
    lengths = [len(RUN), len(OTHER)]
    if row[0] == "nodes" and place_of_id(row[1][0])[2] == IdKind.EVENT:
        branch, event, _ = place_of_id(row[1][0])
        position = events_of((RUN, OTHER)[branch])[event]
        lengths[branch] = position
        if branch == 0 and position < 9:
            lengths[1] = 9
    return lengths


def events_of(line: Sequence[Any]) -> list[int]:
    """Return the message position of each event."""
    return [
        position
        for position, message in enumerate(line)
        for _ in range(1 + len(message.get("tool_calls") or ()))
    ]


def check_export(alice: User, session: str, row: Row, damage_name: str = "deleted") -> None:
    """Assert that the export has every intact message and can be imported. A flipped bit may be in
    a field that no digest covers; that message then counts as intact."""
    export = alice.api("export_session", session=session)
    own_lengths = [
        length - start for length, start in zip(expected_lengths(row), (0, 9), strict=True)
    ]
    lengths = [len(branch["messages"]) for branch in export["branches"]]
    assert lengths == [length for length in own_lengths if length] or (damage_name, lengths) == (
        "flipped",
        [19, 2],
    )
    for branch in export["branches"]:
        start, first = branch["fork_position"], branch["messages"][0]
        line = next(line for line in (RUN, OTHER) if line[start] == first)
        assert branch["messages"] == line[start : start + len(branch["messages"])]
    assert export["damage"] or sum(lengths) == len(RUN) + len(OTHER) - 9
    if export["branches"]:
        alice.api("import_session", session="copy", data=export)
        assert not [finding for finding in store_findings(alice) if finding.session == "copy"]
        alice.api("delete_session", session="copy")


def check_session_continues(api: Api) -> None:
    """Assert that a caller can continue with the full history, and then with new messages."""
    more = [*RUN, user("And now?")]
    reply = api("render", session="s", messages=more, budget=300)
    assert reply["offset"] == len(more)
    last = [*more, assistant("That is all.")]
    piece = {"offset": len(more), "prefix": reply["digest"], "messages": last[len(more) :]}
    assert api("sync", session="s", **piece)["offset"] == len(last)
    assert api("sync", session="s", messages=last)["recorded"] == 0
    WORKING_SET.clear()
    explained = api("explain", session="s")
    assert explained["turn"] == sum(message["role"] == "assistant" for message in last) + 1
    export = api("export_session", session="s")
    assert export["branches"][export["head"]]["messages"][-1] == last[-1]


def corrupted_names(api: Api) -> list[str]:
    """Return the sessions that were set aside; assert that the list marks each as damaged."""
    listed = api("list_sessions")["sessions"]
    assert all(bool(session["damage"]) == (session["session"] != "s") for session in listed)
    names = [session["session"] for session in listed if session["session"] != "s"]
    assert all(name.startswith("s (corrupted 20") for name in names)
    return names


@pytest.mark.slow
@settings(
    max_examples=int(os.environ.get("DAMAGED_EXAMPLES", "20")),
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # an example is small, and slow
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    kind=PLACES, place=PLACES, damage_name=st.sampled_from(["deleted", *DAMAGE]), warm=st.booleans()
)
def test_no_endpoint_fails_when_any_row_is_lost(
    service: Service, kind: float, place: float, damage_name: str, warm: bool
) -> None:
    alice = service.new_user()
    record_session(alice)
    kinds = [*rows_of(alice).values()]
    rows = kinds[int(kind * len(kinds))]
    row = rows[int(place * len(rows))]
    damage(alice, row, damage_name)
    damaged = stored_data(alice, row)
    if not warm:
        WORKING_SET.clear()
    check_calls(alice.api)
    WORKING_SET.clear()
    reply = alice.api.post("export_session", session="s")
    assert stored_data(alice, row) == damaged  # reading changes nothing
    if reply.status_code == 200:
        check_export(alice, "s", row, damage_name)
    else:
        assert reply.json()["error"]["code"] == "corrupted"
    check_session_continues(alice.api)
    aside = corrupted_names(alice.api)
    assert len(aside) <= 1
    damaged_sessions = {finding.session for finding in store_findings(alice)}
    assert not aside or set(aside) <= damaged_sessions
    for name in aside:
        check_export(alice, name, row, damage_name)
        alice.api("delete_session", session=name)
    assert reply.status_code == 200 or aside
    check_calls(alice.api, [None])
    alice.api("delete_session", session="s")
    graph = alice.graph()
    assert not {"Session", "Branch", "Message", "ToolCall", "ToolResult"} & set(graph.counts)
    assert not alice.api("list_sessions")["sessions"]
    # Rows that no edge leads to are found and quarantined.
    repair_all(alice)
    assert not alice.graph().nodes


NODES = ("Session", "Branch", "Message", "ToolCall", "ToolResult")


@pytest.mark.parametrize("damage_name", ["deleted", "noise"])
@pytest.mark.parametrize("kind", NODES)
def test_agent_continues_over_damaged_session(
    alice: User, kind: str, damage_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The damaged session is set aside, and the history is recorded again."""
    record_session(alice)
    reply = alice.api("sync", session="s", messages=OTHER)
    row = rows_of(alice)[kind][0]
    damage(alice, row, damage_name)
    WORKING_SET.clear()
    more = [user("And now?")]
    piece = {"offset": len(OTHER), "prefix": reply["digest"], "messages": more}
    error = alice.api.refused("render", 409, "history_diverged", session="s", budget=300, **piece)
    assert error["recorded"] == 0
    answer = alice.api("render", session="s", messages=[*OTHER, *more], budget=300)
    assert (answer["offset"], answer["branch"]) == (len(OTHER) + 1, 0)
    assert sum("set aside" in record.getMessage() for record in caplog.records) == 1
    (name,) = corrupted_names(alice.api)
    assert "set aside" in {
        finding.kind for finding in store_findings(alice) if finding.session == name
    }
    assert not [finding for finding in store_findings(alice) if finding.session == "s"]
    check_export(alice, name, row)
    alice.api("delete_session", session=name)
    assert not store_findings(alice)


@pytest.mark.parametrize("kind", [*NODES, "ModelCall"])
def test_too_large_number_makes_a_row_unreadable(alice: User, kind: str) -> None:
    """The number has the field's type, but no array of numbers has room for it."""
    record_session(alice)
    node = alice.graph().of(kind)[-1]
    name = next(name for name, value in node.fields.items() if type(value) is int)
    data = rows.pack(rows.encode({**node.fields, name: 10**30}))
    set_data(alice, ("nodes", (UUID(node.id),)), data)
    WORKING_SET.clear()
    assert [finding.node for finding in store_findings(alice) if finding.kind == "unreadable"] == [
        UUID(node.id)
    ]
    check_session_continues(alice.api)
    repair_all(alice)
    assert "unreadable" not in {finding.kind for finding in store_findings(alice)}


@pytest.mark.skipif(IS_TYPED, reason="it has typed columns")
@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Session", "data = 'a text'"),
        ("Session", "rev = 'a text'"),
        ("Branch", "data = CAST(data AS TEXT)"),
        ("ToolResult", "data = 7"),
        ("Message", "data = 1.5"),
    ],
)
def test_value_of_another_sql_type_makes_a_row_unreadable(
    alice: User, kind: str, change: str
) -> None:
    record_session(alice)
    row = rows_of(alice)[kind][0]
    run_on_row(alice, row, f"UPDATE {{}} SET {change}")
    WORKING_SET.clear()
    alice.api.refused("explain", 422, "corrupted", session="s", branch=0)
    alice.api("total_savings")
    assert [finding.node for finding in store_findings(alice) if finding.kind == "unreadable"] == [
        *row[1]
    ]
    check_session_continues(alice.api)
    assert len(corrupted_names(alice.api)) == 1


ENDS = [
    pytest.param(column, value, marks=pytest.mark.skipif(IS_TYPED, reason="it has typed columns"))
    for column in ("source", "target", "kind")
    for value in ("7", "'a text'", "x'00'")
    if (column, value) != ("kind", "7")
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Owns", "HasBranch", "AnsweredBy"])
@pytest.mark.parametrize(("column", "value"), [*ENDS, ("kind", "9999")])
def test_edge_with_an_invalid_end_or_type_counts_as_missing(
    alice: User, kind: str, column: str, value: str
) -> None:
    record_session(alice)
    row = rows_of(alice)[kind][0]
    alice.api("sync", session="other", messages=RUN[:5])
    run_on_row(alice, row, f"UPDATE {{}} SET {column} = {value}")
    WORKING_SET.clear()
    for walker in OPEN:
        reply = alice.api.post(walker, **example(walker, "s"))
        assert reply.status_code in (200, 422), (walker, reply.text)
    assert {session["session"] for session in alice.api("list_sessions")["sessions"]} == {
        "s",
        "other",
    }
    findings = store_findings(alice)
    assert {finding.session for finding in findings} <= {"s", ""}
    assert {"missing", "dangling" if column != "kind" else "unreadable"} <= {
        finding.kind for finding in findings
    }
    check_session_continues(alice.api)
    repair_all(alice)
    assert not [
        finding for finding in store_findings(alice) if finding.kind in ("dangling", "unreadable")
    ]
    alice.api("delete_session", session="s")


@pytest.mark.slow
@pytest.mark.skipif(IS_TYPED, reason="it has typed columns")
@pytest.mark.parametrize("value", ["7", "'a text'", "CAST(id || x'00' AS BLOB)"])
@pytest.mark.parametrize("kind", ["Session", "Branch", "ToolResult"])
def test_node_with_an_invalid_id_counts_as_missing(alice: User, kind: str, value: str) -> None:
    record_session(alice)
    run_on_row(alice, rows_of(alice)[kind][0], f"UPDATE {{}} SET id = {value}")
    WORKING_SET.clear()
    check_calls(alice.api)
    assert {"missing", "orphan"} <= {finding.kind for finding in store_findings(alice)}
    check_session_continues(alice.api)
    corrupted_names(alice.api)
    repair_all(alice)
    assert "orphan" not in {finding.kind for finding in store_findings(alice)}


def test_damaged_sessions_do_not_end_the_list(alice: User) -> None:
    """Each page has as many sessions as it can, although rows between them cannot be read."""
    names = [f"session {number}" for number in range(6)]
    for name in names:
        alice.api("sync", session=name, messages=RUN[:2])
    session_ids = {node.fields["key"]: UUID(node.id) for node in alice.graph().of("Session")}
    branches = rows_of(alice)["Branch"]
    for number, data in ((1, b""), (2, rows.pack(rows.encode({}))), (5, b"noise")):
        set_data(alice, ("nodes", (session_ids[names[number]],)), data)
    moved: Row = ("nodes", (session_ids[names[4]],))
    run_on_row(alice, moved, "UPDATE {} SET listed = 1")  # the data of the row contradicts this
    listed, page = [], alice.api("list_sessions", limit=1)
    while page["next"]:
        listed += page["sessions"]
        page = alice.api("list_sessions", limit=1, cursor=page["next"])
    listed += page["sessions"]
    assert [session["session"] for session in listed] == [names[3], names[0]]
    assert len(alice.api("list_sessions", sort="turns")["sessions"]) == 2
    assert "in the list" in "".join(finding.message for finding in store_findings(alice))
    with closing(open_store(alice.data)) as store:
        owner = UUID(alice.root)
        sessions = stored_sessions(store, owner)
        assert {session.key for session in sessions} == {names[number] for number in (0, 3, 4)}
        for row in branches:
            set_data(alice, row, b"noise")
        assert all(session_bytes(store, owner, session) > 0 for session in sessions)


@pytest.mark.parametrize("kind", ["Session", "ToolResult"])
def test_only_one_request_sets_a_damaged_session_aside(alice: User, kind: str) -> None:
    """A slower request finds the session that was recorded again, and leaves it in place."""
    record_session(alice)
    damage(alice, rows_of(alice)[kind][0], "deleted")
    WORKING_SET.clear()
    owner = UUID(alice.root)
    with closing(open_store(alice.data)) as store:
        revision = store.revision_of(owner, session_id_of(owner, "s"))
        alice.api("sync", session="s", messages=RUN)
        with pytest.raises(WriteConflict):
            set_aside(store, owner, "s", "a damage", revision)
    assert len(corrupted_names(alice.api)) == 1
    assert alice.api("sync", session="s", messages=RUN)["recorded"] == 0


def test_interrupted_move_of_a_session_changes_nothing(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_session(alice)
    delete_result(alice, 3)
    before, owner = rows_of(alice), UUID(alice.root)
    with closing(open_store(alice.data)) as store:
        run_all = store.run

        def run_and_fail(cursor: Any, *statements: Any) -> list[int]:
            counts = run_all(cursor, *statements)
            if len(statements) > 1:  # the statements that move the session
                raise OSError("the process ends")
            return counts

        monkeypatch.setattr(store, "run", run_and_fail)
        with pytest.raises(OSError):
            set_aside(store, owner, "s", "", store.revision_of(owner, session_id_of(owner, "s")))
    assert rows_of(alice) == before


def test_share_link_opens_the_session_recorded_again(alice: User, service: Service) -> None:
    record_session(alice)
    visitor = open_link(service, alice.api("share_session", session="s"))
    delete_result(alice, 3)
    WORKING_SET.clear()
    assert visitor.post("timeline", session="s").status_code == 422
    alice.api("sync", session="s", messages=RUN)
    assert visitor.post("timeline", session="s").status_code == 200
    assert len(alice.api("list_links", session="s")["links"]) == 1


def repair_all(alice: User) -> None:
    with closing(open_store(alice.data)) as store:
        for finding in store_findings(alice):
            repair(store, finding)


def store_findings(alice: User) -> list[StoreFinding]:
    with closing(open_store(alice.data)) as store:
        return list(check_owner(store, UUID(alice.root), read_problem))


def test_session_that_the_store_has_in_an_older_state_is_read_again(alice: User) -> None:
    """A database that takes over for another one may lack the last writes."""
    tables = {
        "nodes": "owner, id, rev, kind, listed, data",
        "edges": "owner, source, kind, target, data",
    }
    alice.api("sync", session="s", messages=RUN[:9])
    with reading(alice.data) as run:
        owner = UUID(alice.root)
        query = "SELECT {} FROM {} WHERE owner = ?"
        older = {name: run(query.format(columns, name), owner) for name, columns in tables.items()}
    record_session(alice)
    with reading(alice.data) as run:
        for name, columns in tables.items():
            run(f"DELETE FROM {name} WHERE owner = ?", owner)
            marks = ", ".join("?" * len(columns.split(",")))
            for row in older[name]:
                run(f"INSERT INTO {name} ({columns}) VALUES ({marks})", *row)
    check_calls(alice.api)
    assert alice.api("export_session", session="s")["branches"][0]["messages"] == RUN[:9]
    check_session_continues(alice.api)
    assert not store_findings(alice)


@pytest.mark.parametrize("damage_name", ["another's", "noise", "deleted"])
@pytest.mark.parametrize("name", ["ShowsExcerpt", "ShowsComplete"])
def test_session_with_damaged_edges_of_a_prompt_is_exported_and_continues(
    alice: User, name: str, damage_name: str
) -> None:
    record_session(alice)
    for row in rows_of(alice)[name]:
        damage(alice, row, damage_name)
    WORKING_SET.clear()
    export = alice.api("export_session", session="s")
    alice.api("import_session", session="copy", data=export)
    assert not [finding for finding in store_findings(alice) if finding.session == "copy"]
    alice.api("delete_session", session="copy")
    check_session_continues(alice.api)


def test_error_and_export_name_the_missing_message(alice: User) -> None:
    record_session(alice)
    delete_result(alice, 11)
    WORKING_SET.clear()
    error = alice.api.refused("explain", 422, "corrupted", session="s", branch=0)
    assert "event" in error["message"] and "export_session" in error["message"]
    alice.api.refused("inspect_session", 422, "corrupted", session="s", branch=0)
    assert alice.api("explain", session="s", branch=1)["branch"] == 1
    export = alice.api("export_session", session="s")
    assert export["branches"][0]["messages"] == RUN[:11]
    assert export["branches"][1]["messages"] == OTHER[9:]
    assert "message 11 of branch 0" in export["damage"]
    alice.api("import_session", session="copy", data=export)


def test_head_without_messages_is_exported_as_its_parent(alice: User) -> None:
    record_session(alice)
    alice.api("sync", session="s", messages=[*RUN[:9], user("A third branch.")])
    alice.api("sync", session="s", messages=[*OTHER, assistant("The second branch again.")])
    own_events = [
        UUID(node.id) for node in alice.graph().of("Message") if place_of_id(UUID(node.id))[0] == 1
    ]
    damage(alice, ("nodes", (min(own_events),)), "deleted")
    WORKING_SET.clear()
    export = alice.api("export_session", session="s")
    assert [branch["parent"] for branch in export["branches"]] == [-1, 0]
    assert export["head"] == 0


def test_check_command_finds_and_repairs_damage(alice: User, tmp_path: Any) -> None:
    record_session(alice)
    delete_result(alice, 11)
    (cut,) = [node for node in alice.graph().of("Message") if node.fields["position"] == 2][:1]
    damage(alice, ("nodes", (UUID(cut.id),)), "noise")
    process = contextrender("check", "--data", alice.data)
    assert process.returncode == 1, process.stderr
    assert all(kind in process.stdout for kind in ("unreadable", "missing", "dangling"))
    assert "repaired" in contextrender("check", "--data", alice.data, "--repair").stdout
    assert {finding.kind for finding in store_findings(alice)} <= {"missing", "corrupted"}


def test_reading_leaves_damaged_rows_in_place(alice: User, service: Service) -> None:
    record_session(alice)
    visitor = open_link(service, alice.api("share_session", session="s"))
    (session,) = alice.graph().of("Session")
    row: Row = ("nodes", (UUID(session.id),))
    damage(alice, row, "noise")
    before = stored_data(alice, row)
    WORKING_SET.clear()
    for api in (visitor, alice.api):
        for walker in ("timeline", "inspect_session", "export_session", "recall"):
            assert api.post(walker, **example(walker, "s")).status_code in (401, 403, 404, 422)
    assert stored_data(alice, row) == before


def test_damaged_sessions_do_not_count_in_the_sums_of_tools(alice: User) -> None:
    record_session(alice)
    delete_result(alice, 3)
    alice.api("sync", session="intact", messages=RUN)
    WORKING_SET.clear()
    assert alice.api("tools") == alice.api("tools", session="intact")
    alice.api.refused("tools", 422, "corrupted", session="s", branch=0)


CALL_EDGE_NAMES = ("HasFirstCall", "AnsweredBy", "NextCall")
EDGES = ("Owns", "HasBranch", "HasFirstEvent", "HasResult", "Reuse")


@pytest.mark.parametrize(
    "name",
    ["Next", *(pytest.param(name, marks=pytest.mark.slow) for name in (*EDGES, *CALL_EDGE_NAMES))],
)
def test_check_finds_and_repairs_missing_edges(alice: User, name: str) -> None:
    record_session(alice)
    scores = alice.api("explain", session="s", branch=0)
    lost_rows = rows_of(alice)[name]
    for row in lost_rows:
        damage(alice, row, "deleted")
    findings = store_findings(alice)
    assert len(findings) == len(lost_rows)
    assert all(
        finding.kind == "missing" and finding.session == "s" and name in finding.message
        for finding in findings
    )
    repair_all(alice)
    assert not store_findings(alice)
    assert rows_of(alice)[name] == lost_rows
    damage(alice, lost_rows[0], "noise")
    assert store_findings(alice)
    repair_all(alice)
    assert not store_findings(alice)
    WORKING_SET.clear()
    assert alice.api("explain", session="s", branch=0) == scores
    check_session_continues(alice.api)


MISSING_CALLS = [(CALL_EDGES, "sums count"), ((), "messages of branch")]


@pytest.mark.parametrize(("edges", "sentence"), MISSING_CALLS)
def test_check_finds_missing_model_calls(
    alice: User, edges: tuple[str, ...], sentence: str
) -> None:
    """The calls are missing with their edges, or their nodes alone."""
    record_session(alice)
    calls: list[Row] = [("nodes", (UUID(node.id),)) for node in alice.graph().of("ModelCall")]
    for row in [*calls, *(row for name in edges for row in rows_of(alice).get(name, ()))]:
        damage(alice, row, "deleted")
    missing_calls = [
        finding
        for finding in store_findings(alice)
        if finding.kind == "missing" and "model call" in finding.message
    ]
    assert all(finding.session == "s" for finding in missing_calls)
    assert any(sentence in finding.message for finding in missing_calls)
    assert edges or len(missing_calls) == len(calls)
    repair_all(alice)
    assert {finding.kind for finding in store_findings(alice)} == {"missing"}
    check_session_continues(alice.api)


@pytest.mark.parametrize("wrong_edge", ["values", "added"])
def test_check_repairs_reuse_edges_from_texts(alice: User, wrong_edge: str) -> None:
    record_session(alice)
    scores = alice.api("explain", session="s", branch=0)
    reuse = rows_of(alice)["Reuse"]
    results = {UUID(node.id) for node in alice.graph().of("ToolResult")}
    (other, *_) = results - {target for _, (_, _, target) in reuse}
    data = rows.pack(rows.encode({"values": ["ORD-1"]}))
    if wrong_edge == "values":
        set_data(alice, reuse[0], data)
    else:
        added = "INSERT INTO edges SELECT owner, source, kind, ?, ? FROM {}"
        run_on_row(alice, reuse[0], added, other, data)
    assert [finding.kind for finding in store_findings(alice)] == ["corrupted"]
    repair_all(alice)
    assert not store_findings(alice)
    WORKING_SET.clear()
    assert alice.api("explain", session="s", branch=0) == scores


def test_orphan_rows_are_quarantined(alice: User) -> None:
    """A copy of each row in a session has an id that belongs to no session."""
    record_session(alice)
    nodes = alice.graph().nodes
    rows: list[Row] = [
        ("nodes", (UUID(node.id),)) for node in nodes.values() if node.kind != "Session"
    ]
    data = {uuid4(): stored_data(alice, row) for row in rows}
    insert = "INSERT INTO nodes SELECT owner, ?, rev, kind, listed, data FROM {}"
    for id, row in zip(data, rows, strict=True):
        run_on_row(alice, row, insert, id)
    findings = store_findings(alice)
    assert {(finding.kind, finding.node) for finding in findings} == {("orphan", id) for id in data}
    assert all("belongs to no session" in finding.message for finding in findings)
    repair_all(alice)
    assert not store_findings(alice)
    assert alice.graph().nodes == nodes
    with reading(alice.data) as run:
        query = "SELECT id, data FROM quarantine WHERE owner = ?"
        quarantined = {UUID(id): [bytes(row)] for id, row in run(query, UUID(alice.root))}
    assert quarantined == data


def test_check_finds_changed_text_by_digest(alice: User) -> None:
    record_session(alice)
    first = alice.graph().of("Message")[0]
    fields = {**first.fields, "text": "something else"}
    set_data(alice, ("nodes", (UUID(first.id),)), rows.pack(rows.encode(fields)))
    assert "corrupted" in {finding.kind for finding in store_findings(alice)}

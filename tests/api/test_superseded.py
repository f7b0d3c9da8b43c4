"""An edge leads from each result to the next version of its file; uses of old versions are reported."""
# ruff: noqa: E501

import json
from uuid import UUID

from contextrender_bridge.runtime.session_lease import WORKING_SET

from tests.api.conftest import User
from tests.api.test_damaged import damage, repair_all, rows_of, run_on_row, store_findings
from tests.support.transcripts import assistant, render_calls, step, user

PATCH = "*** Begin Patch\n*** Update File: src/web.py\n-x = 1\n+x = 2\n*** End Patch"
EDIT = {"file_path": "src/app.py", "old_string": "a = 1", "new_string": "a = 2"}


def read_file(call_id: str, path: str) -> list[dict[str, object]]:
    return step(call_id, "Read", json.dumps({"file_path": path}), f"text {call_id} of {path}")


RUN = [
    user("Change both files."),
    *read_file("one", "src/app.py"),  # result 2
    *read_file("two", "src/web.py"),  # 4
    *read_file("three", "/work/src/app.py"),  # 6 supersedes 2
    *step("four", "Edit", json.dumps(EDIT), "Error: the string was not found"),  # 8 failed
    *step("five", "Edit", json.dumps(EDIT), "The file was updated."),  # 10 supersedes 6
    *step("six", "shell", json.dumps({"command": ["apply_patch", PATCH]}), "Done!"),  # 12: 4
    *read_file("seven", "src/app.py"),  # 14 supersedes 10
    *read_file("eight", "src/other.py"),  # 16
]
PAIRS = {(2, 6), (6, 10), (4, 12), (10, 14)}


def stored_pairs(alice: User) -> set[tuple[int, int]]:
    """Return the positions of the results that `Superseded` edges join."""
    return {
        (old.fields["position"], new.fields["position"])
        for old, new, _ in alice.graph().pairs("Superseded")
    }


def superseded_by(alice: User, session: str) -> dict[int, int | None]:
    """Return what recall reports of each result."""
    view = alice.api("recall", session=session, results=list(range(2, len(RUN), 2)))
    return {result["position"]: result["superseded_by"] for result in view["results"]}


def test_result_is_superseded_by_next_version_of_its_file(alice: User) -> None:
    for stop in range(1, len(RUN) + 1, 2):
        alice.api("sync", session="s", messages=RUN[:stop])
        if stop == 9:
            WORKING_SET.clear()  # the versions are read again from the store
    assert stored_pairs(alice) == PAIRS
    alice.graph().check()
    newer = dict(PAIRS)
    assert superseded_by(alice, "s") == {
        position: newer.get(position) for position in range(2, len(RUN), 2)
    }


def test_import_stores_versions_again(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    exported = alice.api("export_session", session="s")
    alice.api("delete_session", session="s")
    assert not stored_pairs(alice)
    alice.api("import_session", session="t", data=exported)
    assert stored_pairs(alice) == PAIRS
    assert not store_findings(alice)


def test_branches_have_versions_of_their_own(alice: User) -> None:
    """The parent's result has a next version on each branch."""
    alice.api("sync", session="s", messages=RUN[:7])
    other = [*RUN[:5], *step("nine", "Write", '{"path": "src/app.py", "content": "b"}', "written")]
    alice.api("sync", session="s", messages=other)
    kinds = [new.kind for old, new, _ in alice.graph().pairs("Superseded")]
    assert kinds == ["ToolResult"] * 2
    assert stored_pairs(alice) == {(2, 6)}
    assert not store_findings(alice)
    assert alice.api("recall", session="s", results=[2])["results"][0]["superseded_by"] == 6


def test_check_finds_missing_and_wrong_versions(alice: User) -> None:
    alice.api("sync", session="s", messages=RUN)
    edges = rows_of(alice)["Superseded"]
    for row in edges:
        damage(alice, row, "deleted")
    findings = store_findings(alice)
    assert [finding.kind for finding in findings] == ["missing"] * len(edges)
    assert all("Superseded" in finding.message for finding in findings)
    repair_all(alice)
    assert not store_findings(alice)
    assert rows_of(alice)["Superseded"] == edges
    last = next(
        result for result in alice.graph().of("ToolResult") if result.fields["position"] == 16
    )
    added = "INSERT INTO edges SELECT owner, source, kind, ?, data FROM {}"
    run_on_row(alice, edges[0], added, UUID(last.id))
    assert [finding.kind for finding in store_findings(alice)] == ["corrupted"]
    repair_all(alice)
    assert rows_of(alice)["Superseded"] == edges


FILE = "\n".join(
    [
        "def total():",
        "    return OLD_LIMIT_7",
        *(f"row_{number} = {number}" for number in range(50)),
    ]
)
USED_OLD = [
    user("Work."),
    *step("a", "Read", '{"file_path": "src/app.py"}', FILE),  # result 2
    *step("b", "Edit", json.dumps({"file_path": "src/app.py", "old_string": "    return OLD_LIMIT_7", "new_string": "    return 7"}), "done", "It is OLD_LIMIT_7."),
    *step("c", "grep", '{"pattern": "OLD_LIMIT_7"}', "no match in row_9", "Where is row_9?"),
    *step("d", "Read", '{"file_path": "src/app.py"}', "def total():\n    return 7", "I read it."),
    assistant("OLD_LIMIT_7 and row_12 are gone."),
]  # fmt: skip


def test_uses_of_old_versions_are_reported(alice: User) -> None:
    """A use before the edit, and a use of a line that stayed, are not of an old version."""
    render_calls(alice.api, "s", USED_OLD, budget=6000)
    timeline = alice.api("timeline", session="s")
    assert [turn["old_versions"] for turn in timeline["turns"]] == [[], [], [0], [], [0]]
    assert all(0 in turn["uses"] for turn in timeline["turns"][1:3])
    edited_at = {
        position: [use["edited_at"] for use in view["results_used"]]
        for position in range(1, len(USED_OLD), 2)
        for view in [alice.api("read_message", session="s", position=position)]
    }
    assert edited_at == {1: [], 3: [None], 5: [2], 7: [], 9: [2]}
    rows = alice.api("explain", session="s", turn=4)["results"]
    assert [row["edited_at"] for row in rows] == [2, None, None]
    assert alice.api("misses", session="s")["old_versions"] == 2

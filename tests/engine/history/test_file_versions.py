"""Versions of files: which lines an edit replaced, by the arguments of agents' tools."""
# ruff: noqa: E501

import json
from typing import Any

import pytest
from contextrender_bridge.engine.history.file_versions import (
    FileVersions,
    is_same_path,
    replaced_ranges,
)

FILE = "def total(rows):\n    limit = OLD_LIMIT\n    return sum(rows)\n"
OLD_LINE, NEW_LINE = "    limit = OLD_LIMIT", "    limit = NEW_LIMIT"
PATCH = """*** Begin Patch
*** Update File: src/app.py
@@ def total(rows):
 def total(rows):
-    limit = OLD_LIMIT
+    limit = NEW_LIMIT
     return sum(rows)
*** End Patch"""
DIFF = f"--- a/src/app.py\n+++ b/src/app.py\n@@ -1,3 +1,3 @@\n-{OLD_LINE}\n+{NEW_LINE}\n"
NEW_FILE = FILE.replace(OLD_LINE, NEW_LINE)
SHELL = {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]}

EDITS: list[tuple[str, Any]] = [
    ("Claude Code", {"file_path": "src/app.py", "old_string": OLD_LINE, "new_string": NEW_LINE}),
    ("Claude Code, in the line", {"file_path": "src/app.py", "old_string": "= OLD_LIMIT", "new_string": "= 3"}),
    ("Claude Code, many", {"file_path": "src/app.py", "edits": [{"old_string": OLD_LINE, "new_string": ""}]}),
    ("Claude Code, whole", {"file_path": "src/app.py", "content": NEW_FILE}),
    ("opencode", {"filePath": "/work/src/app.py", "oldString": OLD_LINE, "newString": NEW_LINE}),
    ("opencode, patch", {"patchText": PATCH}),
    ("opencode, whole", {"filePath": "/work/src/app.py", "content": NEW_FILE}),
    ("Codex", PATCH),
    ("Codex, JSON", {"input": PATCH}),
    ("Codex, shell", SHELL),
    ("pi", {"path": "src/app.py", "oldText": OLD_LINE, "newText": NEW_LINE}),
    ("pi, many", {"path": "src/app.py", "edits": [{"oldText": OLD_LINE, "newText": NEW_LINE}]}),
    ("str_replace", {"command": "str_replace", "path": "src/app.py", "old_str": OLD_LINE, "new_str": NEW_LINE}),
    ("create", {"command": "create", "path": "src/app.py", "file_text": NEW_FILE}),
    ("Hermes", {"mode": "patch", "patch": DIFF}),
    ("Gemini", {"file_path": "./src/app.py", "old_string": OLD_LINE, "new_string": NEW_LINE}),
    ("others", {"filename": "src/app.py", "search": OLD_LINE, "replacement": NEW_LINE}),
]  # fmt: skip


def replaced_lines(text: str, versions: FileVersions, result: int = 0) -> list[str]:
    """Return the lines of a result, called for in message 1, that later edits have replaced."""
    edits = versions.edits_after(result, 1, 99)
    is_file = versions.has_path(result)
    return [text[start:end] for start, end in replaced_ranges(text, edits, is_file=is_file)]


def arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def read_file(path: str = "src/app.py") -> FileVersions:
    """Return the versions after a file was read as result 0."""
    versions = FileVersions()
    versions.add_call((1, 0), json.dumps({"file_path": path}))
    versions.add_result(0, (1, 0), "read")
    return versions


@pytest.mark.parametrize(("tool", "edit"), EDITS)
def test_edit_replaces_lines(tool: str, edit: Any) -> None:
    versions = read_file()
    assert not replaced_lines(FILE, versions)
    versions.add_call((3, 0), arguments(edit))
    assert replaced_lines(FILE, versions) == [f"{OLD_LINE}\n"], tool
    numbered = "".join(f"{n:>6}→{line}\n" for n, line in enumerate(FILE.splitlines(), 1))
    assert replaced_lines(numbered, versions) == [f"     2→{OLD_LINE}\n"]
    # The edited file itself has no replaced line, and a read after the edit is the newest version.
    assert not versions.edits_after(0, 3, 99)
    assert not replaced_lines(FILE.replace(OLD_LINE, NEW_LINE), versions)


@pytest.mark.parametrize("tool_edit", EDITS)
def test_edit_of_another_file_replaces_nothing(tool_edit: tuple[str, Any]) -> None:
    versions = read_file("src/other/app2.py")
    versions.add_call((3, 0), arguments(tool_edit[1]))
    assert not replaced_lines(FILE, versions)


@pytest.mark.parametrize(("tool", "edit"), [case for case in EDITS if "content" not in case[1]])
def test_result_of_no_known_file_has_replaced_lines(tool: str, edit: Any) -> None:
    """A shell printed the file, or a search found the line. A written file is not compared."""
    versions = FileVersions()
    versions.add_call((1, 0), json.dumps({"command": "cat src/app.py"}))
    versions.add_result(0, (1, 0), "read")
    versions.add_call((3, 0), arguments(edit))
    match = f"src/app.py:2:{OLD_LINE}\n"
    expected = [] if tool == "create" else [match]
    assert replaced_lines(match, versions) == expected


def test_line_that_is_put_back_is_current() -> None:
    versions = read_file()
    versions.add_call(
        (3, 0), json.dumps({"path": "src/app.py", "old_str": OLD_LINE, "new_str": "pass"})
    )
    versions.add_call(
        (5, 0), json.dumps({"path": "src/app.py", "old_str": "pass", "new_str": OLD_LINE})
    )
    assert not replaced_lines(FILE, versions)
    versions.add_call((7, 0), json.dumps({"path": "src/app.py", "content": "x = 1\n"}))
    assert len(replaced_lines(FILE, versions)) == 3


def test_newer_results_of_a_file() -> None:
    versions = FileVersions()
    paths = ["src/app.py", "/work/src/app.py", "src/web.py", "./src/app.py", "app.py"]
    for result, path in enumerate(paths):
        versions.add_call((result, 0), json.dumps({"path": path}))
        versions.add_result(result, (result, 0), "read")
    assert versions.newer_results(0, 5) == [4, 3, 1]
    assert versions.newer_results(0, 3) == [1]
    assert versions.newer_results(2, 5) == []
    assert [versions.superseded_by(result) for result in range(5)] == [(), (0,), (), (1,), (3,)]


def test_calls_that_change_no_file() -> None:
    versions = read_file()
    for value in (
        {"command": "view", "path": "src/app.py", "view_range": [1, 2]},
        {"path": "src/app.py", "pattern": "limit"},
        {"query": "limit"},
        {"path": 5, "content": FILE},
        {"path": "src/app.py", "edits": "none"},
        [1],
        "",
        "{",
        '{"a": "\\ud800"}',
    ):
        versions.add_call((3, 0), arguments(value))
    assert not replaced_lines(FILE, versions)
    assert not is_same_path("app.py", "myapp.py")
    assert versions.nbytes


@pytest.mark.parametrize(
    "text", ["<tool_use_error>String to replace not found", "Error: no match", "Failed to edit"]
)
def test_failed_edit_replaces_nothing(text: str) -> None:
    versions = read_file()
    edit = {"file_path": "src/app.py", "old_string": OLD_LINE, "new_string": NEW_LINE}
    versions.add_call((3, 0), json.dumps(edit))
    versions.add_call((3, 1), json.dumps({**edit, "old_string": "    return sum(rows)"}))
    versions.add_result(1, (3, 0), text)
    versions.add_result(2, (3, 1), "The file was updated.")
    assert replaced_lines(FILE, versions) == ["    return sum(rows)\n"]
    assert (versions.superseded_by(1), versions.superseded_by(2)) == ((), (0,))

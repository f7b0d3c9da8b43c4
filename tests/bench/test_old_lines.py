"""The count of restored lines that an edit had replaced, over a recorded run."""

import json
from pathlib import Path

import pytest
from contextrender_bridge.engine.plan.excerpt_text import restored_mark

from bench.old_lines import count, count_in_text
from tests.engine.plan.test_restored_versions import EDITS, line_of, run_with

EDIT_CASES = pytest.mark.parametrize("edit", [EDITS[0], EDITS[2]], ids=["edit", "patch"])


@EDIT_CASES
def test_no_replaced_line_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: dict[str, str]
) -> None:
    """The edit does not replace the line of `function_2_3`."""
    monkeypatch.setattr("bench.old_lines.LIVE", "contextrender_cache_aware@auto")
    messages = run_with(edit, reads_again=False, late_text="function_2_3 again")
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps({"id": "run", "source": "test", "messages": messages}))
    counts = count([path])
    assert counts["parts"] and counts["older parts"] and counts["lines"]
    assert counts["replaced lines"] == 0


@EDIT_CASES
def test_replaced_lines_are_counted(edit: dict[str, str]) -> None:
    messages = run_with(edit, reads_again=False, late_text="")
    mark = restored_mark(6, is_complete=False, edited_at=7)
    text = f"result\n\n{mark}{line_of(2, 3)}\n   {line_of(2, 77)}\n[…] 78\t{line_of(2, 78)}"
    counts = count_in_text(messages, len(messages) - 1, text)
    assert counts == {"parts": 1, "older parts": 1, "lines": 3, "replaced lines": 2}
    # Before the edit, which is in message 13, no line was replaced.
    assert count_in_text(messages, 13, text)["replaced lines"] == 0

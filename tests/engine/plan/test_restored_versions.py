"""Restored text never has a line that an edit replaced, and is of the newest version of a file."""

import json
from typing import Any

import pytest
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.parameters import AUTO
from contextrender_bridge.engine.plan.append_step import segments_not_to_restore
from contextrender_bridge.engine.text.transcript import Json

from tests.support.strategies import COUNTER, render
from tests.support.transcripts import step, user

POLICY = "contextrender_cache_aware"
LINES = 120


def file_text(file: int, version: str = "") -> str:
    return "".join(
        f"def function_{file}{version}_{n}(argument): return {n}\n" for n in range(LINES)
    )


def line_of(file: int, number: int) -> str:
    return f"def function_{file}_{number}(argument): return {number}"


def run_with(edit: Json | None, *, reads_again: bool, late_text: str) -> list[Json]:
    """Return a run that reads files, edits the third one, and uses a value of it late.

    It may read the third file again.
    """
    messages = [user("read them all")]
    for file in range(40 if reads_again else 34):
        words = late_text if file == (36 if reads_again else 29) else "next"
        arguments = json.dumps({"path": f"src/file_{file}.py"})
        if file == 6 and edit:
            process = step("edit", "edit", json.dumps(edit), "done", "I edit it.")
            messages += process
        if file == 7 and reads_again:
            new_text = file_text(2).replace(line_of(2, 77), "def function_2_new(argument): pass")
            messages += step(
                "again", "read", json.dumps({"path": "src/file_2.py"}), new_text, "again"
            )
        messages += step(f"c{file}", "read", arguments, file_text(file), words)
    return messages


def restored_texts(messages: list[Json]) -> list[str]:
    """Return the texts that the calls of a run restore, in order."""
    history, texts = History(), dict[str, None]()
    for size in [n for n, m in enumerate(messages) if m["role"] == "assistant" and n]:
        history.extend(messages[len(history) : size], COUNTER)
        rendered, _ = render(messages[:size], AUTO, POLICY, history=history)
        for restored in rendered.selection.restored.values():
            texts |= dict.fromkeys(part.text for part in restored.parts)
            context = rendered.context
            for part in restored.parts:
                outdated, _ = segments_not_to_restore(context, part.result)
                first = int(context.tracking.first_segment.values[part.result])
                ends = [0, *context.tracking.segment_end.values[first:].tolist()]
                spans = [(ends[segment - first], ends[segment - first + 1]) for segment in outdated]
                for start, length in zip(part.ranges[::2], part.ranges[1::2], strict=True):
                    assert all(stop <= start or start + length <= at for at, stop in spans)
    return list(texts)


OLD_BLOCK = "\n".join(line_of(2, number) for number in range(5, LINES))
EDITS: list[Any] = [
    {"file_path": "src/file_2.py", "old_string": OLD_BLOCK, "new_string": "pass"},
    {"path": "/work/src/file_2.py", "edits": [{"oldText": OLD_BLOCK, "newText": "pass"}]},
    {
        "patch": "*** Begin Patch\n*** Update File: src/file_2.py\n-"
        + OLD_BLOCK.replace("\n", "\n-")
        + "\n+pass\n*** End Patch"
    },
]
LATE_TEXT = "function_2_77 again"


def lines_in(texts: list[str]) -> set[int]:
    """Return the numbers of the lines of the third file in these texts."""
    return {number for number in range(LINES) if line_of(2, number) in "".join(texts)}


@pytest.mark.parametrize("edit", EDITS)
def test_replaced_lines_are_not_restored(edit: Json) -> None:
    without_edit = restored_texts(run_with(None, reads_again=False, late_text=LATE_TEXT))
    assert max(lines_in(without_edit)) >= 5
    assert "before the edit" not in "".join(without_edit)
    texts = restored_texts(run_with(edit, reads_again=False, late_text=LATE_TEXT))
    assert lines_in(texts) <= set(range(5))
    for text in texts:
        assert ("as it was before the edit at call 7" in text) == bool(lines_in([text]))


def test_written_file_is_not_restored_from_its_old_version() -> None:
    edit = {"path": "src/file_2.py", "content": file_text(2, "b")}
    assert not lines_in(restored_texts(run_with(edit, reads_again=False, late_text=LATE_TEXT)))


def test_newest_version_is_restored() -> None:
    """Lines of the old version that the new one has, too, are restored from the new one."""
    edit = {"path": "src/file_2.py", "old_str": line_of(2, 77), "new_str": "pass"}
    texts = restored_texts(run_with(edit, reads_again=True, late_text=LATE_TEXT))
    restored = [text for text in texts if lines_in([text])]
    assert restored
    assert all("result 18," in text and "before the edit" not in text for text in restored)
    assert 77 not in lines_in(restored)


def test_excerpts_prefer_newest_version() -> None:
    """A line that both versions of a file have is in an excerpt of the newer one."""
    edit = {"path": "src/file_2.py", "old_str": line_of(2, 77), "new_str": "pass"}
    messages = run_with(edit, reads_again=True, late_text="function_2_76 and function_2_77 again")
    old, new = 2, 8
    rendered, _ = render(messages, 4000, "contextrender_excerpts")
    excerpts = rendered.selection.excerpts
    assert old not in excerpts and len(lines_in([excerpts[new].text])) > 50

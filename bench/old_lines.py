"""Count restored lines that an edit had replaced: `python -m bench.old_lines RUNS...`.

The recorded runs are rendered as for a live agent. The restored parts are read from the prompts,
and the edits from the runs: those of Claude Code's and opencode's tools, and patches. Each line is
compared alone, so this check shares no rule with the selection of the parts.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.models.embeddings import load_embedder
from contextrender_bridge.engine.text.tokens import content_text
from contextrender_bridge.evaluation.cases import Case, cases_named
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.runs import Run, read_runs
from contextrender_bridge.evaluation.scores import Prompt, Turn

LIVE = "contextrender_cache_aware:agent_defaults=1@auto"
PART = re.compile(r"\[(?:Result|Parts of result) (\d+), which left([^\]]*):\]\n")
"""The line before a restored part: the position of its result, and when the result was dropped."""
LINE_NUMBER = re.compile(r"\s*\d+(?:→|\t|\| |: )")
PATCHED_FILE = re.compile(r"\*\*\* (?:Add|Update|Delete) File: (.+)")
FAILED_EDIT = re.compile(r"\W*(tool_use_error|error|failed)\b", re.IGNORECASE)
"""The beginning of the result of an edit that failed."""


def count_in_text(
    messages: list[Json], stop: int, text: str, seen_parts: set[str] | None = None
) -> Counter[str]:
    """Count the restored parts in a result's text, in the prompt that the message `stop` answers.

    Parts in `seen_parts` are not counted again, and new parts are added to `seen_parts`.
    """
    counts: Counter[str] = Counter()
    marks = list(PART.finditer(text))
    for mark, next_mark in zip_longest(marks, marks[1:]):
        part = text[mark.start() : next_mark.start() if next_mark else len(text)]
        if seen_parts is not None:
            if part in seen_parts:
                continue
            seen_parts.add(part)
        replaced = replaced_lines(messages, int(mark[1]), stop)
        lines = part[mark.end() - mark.start() :].replace("[…]", "\n").splitlines()
        plain_lines = [LINE_NUMBER.sub("", line, count=1).strip() for line in lines]
        counts["parts"] += 1
        counts["older parts"] += "before the edit" in mark[2]
        counts["lines"] += sum(map(bool, plain_lines))
        counts["replaced lines"] += len([line for line in plain_lines if line in replaced])
    return counts


def replaced_lines(messages: list[Json], position: int, stop: int) -> set[str]:
    """Return the lines that edits before the message `stop` replaced in the file of a result."""
    call_id = str(messages[position].get("tool_call_id"))
    call_message = next(
        at for at in range(position, -1, -1) if call_id in (id for id, _ in calls_of(messages[at]))
    )
    path = dict(calls_of(messages[call_message]))[call_id].get("path") or ""
    replaced: set[str] = set()
    if not path:
        return replaced
    for at in range(call_message + 1, stop):
        for id, fields in calls_of(messages[at]):
            results = (m for m in messages[at:stop] if m.get("tool_call_id") == id)
            result = content_text(next(results, {}).get("content"))
            if FAILED_EDIT.match(result):
                continue
            for edited_path, old, new in edits_of(fields):
                # One of the paths may be relative.
                if edited_path.endswith(path) or path.endswith(edited_path):
                    replaced |= lines_of(old)
                    replaced -= lines_of(new)
    return replaced


def calls_of(message: Json) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the id and the arguments of a message's calls; the file is in the field `path`."""
    calls: list[tuple[str, Mapping[str, Any]]] = []
    for call in message.get("tool_calls") or ():
        try:
            fields = json.loads(call["function"]["arguments"])
        except ValueError:
            fields = {"input": call["function"]["arguments"]}
        if isinstance(fields, dict):
            path = fields.get("file_path") or fields.get("filePath") or fields.get("path")
            calls.append((call["id"], {**fields, "path": path}))
    return calls


def edits_of(fields: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the old text and the new text of each edit of a call.

    A patch is one edit for each of its files: the removed and the added lines.
    """
    for edit in [fields, *(fields.get("edits") or ())]:
        old = edit.get("old_string") or edit.get("oldString") or ""
        if old and fields["path"]:
            yield fields["path"], old, edit.get("new_string") or edit.get("newString") or ""
    arguments = json.dumps(fields)
    if "*** Begin Patch" in arguments:
        yield from patch_edits(arguments.replace("\\n", "\n"))


def patch_edits(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the removed lines and the added lines of each file in the text of a patch."""
    path, removed, added = "", list[str](), list[str]()
    for line in text.splitlines():
        if match := PATCHED_FILE.match(line):
            if path:
                yield path, "\n".join(removed), "\n".join(added)
            path, removed, added = match[1], [], []
        elif line.startswith("+"):
            added.append(line[1:])
        elif line.startswith("-"):
            removed.append(line[1:])
    if path:
        yield path, "\n".join(removed), "\n".join(added)


def lines_of(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if line.strip()}


def count(paths: list[Path], limit: int | None = None) -> Counter[str]:
    """Return the counts of the restored parts in all prompts of the runs."""
    counts: Counter[str] = Counter()
    embedder = load_embedder("")
    for run in read_runs(paths, limit):
        seen_parts: set[str] = set()

        def add(
            case: Case,
            turn: Turn,
            prompt: Prompt,
            run: Run = run,
            seen_parts: set[str] = seen_parts,
        ) -> None:
            for message in prompt.messages:
                if message["role"] == "tool":
                    text = content_text(message.get("content"))
                    counts.update(count_in_text(run.messages, turn.position, text, seen_parts))

        replay_run(run, cases_named(LIVE, []), embedder, add)
    return counts


def main() -> None:
    counts = count([Path(path) for path in sys.argv[1:]])
    print(
        f"{counts['parts']:,} restored parts, {counts['older parts']:,} of them from before an "
        f"edit, {counts['lines']:,} lines: {counts['replaced lines']:,} lines that an edit had "
        "replaced"
    )


if __name__ == "__main__":
    main()

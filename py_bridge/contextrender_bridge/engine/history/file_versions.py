"""Versions of files: which calls read, edited or wrote a file, and the lines that edits replaced.

The arguments of the known tools have these names: those of Claude Code, opencode, pi, Hermes,
Gemini and editors with `str_replace`; patches are those of Codex and `diff`. Other tools that name
a path and a text in the same way are read alike. A path in a shell command is not recognised.

Long because each agent writes edits in a form of its own.
"""

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

PATHS: Final = (
    *("file_path", "filePath", "path", "notebook_path", "target_file", "filename", "file"),
    *("absolute_path", "uri"),
)
OLD: Final = ("old_string", "oldString", "old_str", "oldText", "old_text", "search", "find")
NEW: Final = ("new_string", "newString", "new_str", "newText", "new_text", "replace", "replacement")
CONTENTS: Final = ("content", "file_text", "contents", "new_source", "fileText", "code_edit")
SHORT: Final = 8
"""A replaced line with fewer characters is only recognised if it is a whole line."""
MOST_CHARACTERS: Final = 1_000_000
"""Longer arguments are not read."""

_READS: Final = frozenset({"view", "read", "list", "undo_edit"})
_NUMBERED: Final = re.compile(r"\s*\d{1,7}(?:→|\t|\| ?|: ?)")
_FAILED: Final = re.compile(
    r"\W*(?:tool_use_error|error|failed|could ?n.t|string to replace not found|no match|invalid)\b",
    re.I,
)
_PATCH: Final = re.compile(r"\*\*\* Begin Patch|^(?:---|\+\+\+) \S", re.M)
_PATCH_FILE: Final = re.compile(
    r"(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)([^\t\r\n]+)(?:\t.*)?"
)


Call = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FileEdit:
    """One change of a file by a `call`, which is its message and its number there.

    `removed` and `added` have lines without the white space around them. If the whole file was
    written, `is_whole` is true, and `added` has all of its lines.
    """

    call: Call
    path: str
    removed: frozenset[str]
    added: frozenset[str]
    is_whole: bool = False

    @property
    def position(self) -> int:
        """The position of the call's message."""
        return self.call[0]


class FileVersions:
    """The edits of all files in a history, and the file that each result is of."""

    def __init__(self) -> None:
        """Start without edits and results."""
        self._edits: list[FileEdit] = []  # in order
        self._edits_by_name: defaultdict[str, list[FileEdit]] = defaultdict(list)
        """The edits by the base name of their path."""
        self._paths: dict[int, str] = {}  # the path that each result's call names
        self._results: dict[str, list[int]] = {}  # by the base name of their path, in order
        self._failed: set[Call] = set()  # calls whose result reports a failure
        self._open_calls: dict[Call, tuple[str, ...]] = {}
        """The path that each call without a result names, and those of the files it edits."""
        self._newest: defaultdict[str, list[int]] = defaultdict(list)
        """The results that are not superseded, by the base name of their path."""
        self._superseded: dict[int, tuple[int, ...]] = {}
        self._line_bytes = 0

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return self._line_bytes + 300 * len(self._paths)

    def add_call(self, call: Call, arguments: str) -> None:
        """Add the path that a call names, and its edits."""
        if len(arguments) > MOST_CHARACTERS:
            return
        fields = _fields(arguments)
        path = _first_text(fields, PATHS)
        edits = list(_edits(call, path, fields, arguments))
        if path or edits:
            self._open_calls[call] = path, *dict.fromkeys(edit.path for edit in edits)
        for edit in edits:
            self._edits.append(edit)
            self._edits_by_name[_base_name(edit.path)].append(edit)
            self._line_bytes += sum(80 + len(line) for line in (*edit.removed, *edit.added))

    def add_result(self, result: int, call: Call, text: str) -> None:
        """Add a result of a call; `text` is the result's text.

        A call that failed has edited nothing, and its result supersedes none.
        """
        path, *edited_paths = self._open_calls.pop(call, ("",))
        has_failed = _FAILED.match(text) is not None
        if has_failed:
            self._failed.add(call)
        else:
            paths = [each for each in dict.fromkeys((path, *edited_paths)) if each]
            superseded = sorted(old for each in paths for old in self._supersede(each))
            if superseded:
                self._superseded[result] = tuple(superseded)
        if path:
            self._paths[result] = path
            self._results.setdefault(_base_name(path), []).append(result)
            if not has_failed:
                self._newest[_base_name(path)].append(result)

    def _supersede(self, path: str) -> list[int]:
        """Return the newest results of a file, which are no longer its newest ones."""
        newest = self._newest[_base_name(path)]
        superseded = [result for result in newest if is_same_path(path, self._paths[result])]
        self._newest[_base_name(path)] = [old for old in newest if old not in superseded]
        return superseded

    def superseded_by(self, result: int) -> tuple[int, ...]:
        """Return the results of which this result is the next version.

        Its call reads, edits or writes the file that they are of.
        """
        return self._superseded.get(result, ())

    def edits_after(self, result: int, position: int, stop: int) -> list[FileEdit]:
        """Return the edits of a result's file in the messages after `position`, up to `stop`.

        The result's call is in the message at `position`. If its path is not known, the edits of
        all files are returned.
        """
        path = self._paths.get(result)
        edits = self._edits if path is None else self._edits_by_name.get(_base_name(path), [])
        start = bisect_right(edits, position, key=_position_of)
        return [
            edit
            for edit in edits[start : bisect_right(edits, stop - 1, key=_position_of)]
            if edit.call not in self._failed and (path is None or is_same_path(path, edit.path))
        ]

    def has_path(self, result: int) -> bool:
        """Return whether the result is of a known file."""
        return result in self._paths

    def newer_results(self, result: int, count: int) -> list[int]:
        """Return the later of the first `count` results that are of the same file, newest first."""
        path = self._paths.get(result)
        if path is None:
            return []
        results = self._results[_base_name(path)]
        return [
            later
            for later in reversed(results)
            if result < later < count and is_same_path(path, self._paths[later])
        ]


def _position_of(edit: FileEdit) -> int:
    return edit.position


def replaced_ranges(text: str, edits: list[FileEdit], *, is_file: bool) -> list[tuple[int, int]]:
    """Return the ranges of characters of an older text whose lines the edits have replaced since.

    `edits` and the ranges are in order. `is_file` is true if the text is surely of the edited file.
    Otherwise a file that was written in full replaces nothing in it.
    """
    removed: set[str] = set()  # lines that an edit removed and that no later edit added again
    current_lines: frozenset[str] | None = None  # all lines, if the whole file was written
    for edit in edits:
        if edit.is_whole and is_file:
            current_lines, removed = edit.added, set()
        removed |= edit.removed
        removed -= edit.added
        if current_lines is not None:
            current_lines = (current_lines - edit.removed) | edit.added
    if not removed and current_lines is None:
        return []
    long_removed = [line for line in removed if len(line) >= SHORT]

    def is_replaced(line: str, content: str) -> bool:
        """Return whether edits replaced `line`. `content` is it without its line number."""
        if line in removed or content in removed:
            return True
        # Tools show lines with more than a number around them. A short line, such as a bracket, is
        # within too many others.
        if any(removed_line in line for removed_line in long_removed):
            return True
        if current_lines is None or not content:
            return False
        return line not in current_lines and content not in current_lines

    return _line_ranges(text, is_replaced)


def repeated_ranges(text: str, newer_texts: Iterable[str]) -> list[tuple[int, int]]:
    """Return the ranges of the lines that newer versions of a text have, too, in order."""
    lines = {_content(line) for newer_text in newer_texts for line in newer_text.splitlines()}
    return _line_ranges(text, lambda _, content: content in lines)


def _line_ranges(text: str, has: Callable[[str, str], bool]) -> list[tuple[int, int]]:
    """Return the ranges of the lines for which `has` returns true.

    `has` gets a line without white space around it, and the line's content, which also lacks the
    line number that a tool wrote at its beginning.
    """
    ranges: list[tuple[int, int]] = []
    start = 0
    for line in text.splitlines(keepends=True):
        if has(line.strip(), _content(line)):
            ranges.append((start, start + len(line)))
        start += len(line)
    return ranges


def _content(line: str) -> str:
    """Return a line without its number and the white space around it."""
    match = _NUMBERED.match(line)
    return line[match.end() :].strip() if match else line.strip()


def is_same_path(path: str, other: str) -> bool:
    """Return whether two paths, of which one may be relative, are of the same file."""
    path, other = path.removeprefix("./"), other.removeprefix("./")
    return path == other or path.endswith(f"/{other}") or other.endswith(f"/{path}")


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]


def _fields(arguments: str) -> Mapping[str, Any]:
    """Return the arguments by name; empty if they are no JSON object."""
    if not arguments.lstrip().startswith("{"):
        return {}
    try:
        fields = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _first_text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the first of these fields that is a text; empty if none is."""
    return next((fields[name] for name in names if isinstance(fields.get(name), str)), "")


def _edits(call: Call, path: str, fields: Mapping[str, Any], arguments: str) -> Iterator[FileEdit]:
    """Yield the edits of a call: patches, replaced texts, and a file that is written in full.

    `path` is the file that the call names, empty if it names none. `fields` are the arguments by
    name. They are empty if `arguments` is no JSON object; it may then be a patch itself.
    """
    file_contents = (*OLD, *NEW, *CONTENTS)
    other_fields = {name: value for name, value in fields.items() if name not in file_contents}
    for text in _texts(other_fields) if fields else [arguments]:
        if _PATCH.search(text):
            yield from _patch_edits(call, path, text)
    if not path or fields.get("command") in _READS:
        return
    several_edits = fields.get("edits")
    changes = [fields, *(several_edits if isinstance(several_edits, list) else ())]
    for change in changes:
        if isinstance(change, Mapping) and (old := _first_text(change, OLD)):
            before, after = _lines(old), _lines(_first_text(change, NEW))
            yield FileEdit(call, path, removed=before - after, added=after)
    content = next((name for name in CONTENTS if isinstance(fields.get(name), str)), None)
    if content is not None and not _first_text(fields, OLD):
        yield FileEdit(call, path, frozenset(), _lines(fields[content]), is_whole=True)


def _texts(value: object) -> Iterator[str]:
    """Yield all texts in a JSON value, such as the patch in a shell's command."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, Mapping)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def _patch_edits(call: Call, path: str, patch: str) -> Iterator[FileEdit]:
    """Yield the edit of each file in a patch; `path` is the file of a patch that names none."""
    removed: dict[str, set[str]] = {}
    added: dict[str, set[str]] = {}
    for line in patch.splitlines():
        if match := _PATCH_FILE.match(line):
            path = match[1].strip()
        elif line.startswith(("--- ", "*** ", "@@")) or not path:
            continue
        elif line.startswith(("-", "+")) and line[1:].strip():
            (removed if line[0] == "-" else added).setdefault(path, set()).add(line[1:].strip())
    for name in dict.fromkeys((*removed, *added)):
        before, after = frozenset(removed.get(name, ())), frozenset(added.get(name, ()))
        # A line that the patch removes and adds, for example at another position, is not replaced.
        yield FileEdit(call, name, removed=before - after, added=after)


def _lines(text: str) -> frozenset[str]:
    """Return the lines of a text without white space around them."""
    return frozenset(line for each in text.splitlines() if (line := each.strip()))

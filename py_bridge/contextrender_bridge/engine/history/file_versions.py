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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# The names of arguments that have a file's path, the text to replace, the text that replaces it,
# and the whole new text of a file:
_PATH_NAMES: Final = (
    *("file_path", "filePath", "path", "notebook_path", "target_file", "filename", "file"),
    *("absolute_path", "uri"),
)
_OLD_TEXT_NAMES: Final = (
    *("old_string", "oldString", "old_str", "oldText", "old_text", "search", "find"),
)
_NEW_TEXT_NAMES: Final = (
    *("new_string", "newString", "new_str", "newText", "new_text", "replace", "replacement"),
)
_FILE_TEXT_NAMES: Final = (
    *("content", "file_text", "contents", "new_source", "fileText", "code_edit"),
)
_TEXTS_IN_FILES: Final = frozenset((*_OLD_TEXT_NAMES, *_NEW_TEXT_NAMES, *_FILE_TEXT_NAMES))

_MIN_PARTIAL_LINE: Final = 8
"""A removed line with fewer characters is only recognised if it is a whole line."""
_MAX_ARGUMENTS: Final = 1_000_000
"""Arguments with more characters are not read."""

_DECODER: Final = json.JSONDecoder(strict=False)
"""Reads JSON in which strings may have line breaks, as some models write them."""
_READING_COMMANDS: Final = frozenset({"view", "read", "list", "undo_edit"})
"""Values of the argument `command` with which a call replaces no text."""
_LINE_NUMBER: Final = re.compile(r"\s*\d{1,7}(?:→|\t|\| ?|: ?)")
_FAILURE: Final = re.compile(
    r"\W*(?:tool_use_error|error|failed|could ?n.t|string to replace not found|no match|invalid)\b",
    re.I,
)
_PATCH_START: Final = re.compile(r"\*\*\* Begin Patch|^(?:---|\+\+\+) \S", re.M)
_PATCH_FILE: Final = re.compile(
    r"(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)([^\t\r\n]+)(?:\t.*)?"
)


Call = tuple[int, int]
"""The position of a call's message, and the number of the call in this message."""


@dataclass(frozen=True, slots=True)
class FileEdit:
    """One change of a file by a call.

    `removed` and `added` have lines without the white space around them. If the call wrote the
    whole file, `is_whole` is true, and `added` has all lines of the file.
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
    """The edits of all files in a history, and the file that each result shows."""

    def __init__(self) -> None:
        """Start without edits and results."""
        self._paths: dict[int, str] = {}  # the path that each result's call names, if it names one
        self._edits: list[FileEdit] = []  # in order
        # One call may name a file by its relative path, and another by its absolute path. So files
        # are looked up by their base name, and `is_same_path` compares the paths:
        self._edits_by_name: defaultdict[str, list[FileEdit]] = defaultdict(list)
        self._results: dict[str, list[int]] = {}  # in order
        self._newest: defaultdict[str, list[int]] = defaultdict(list)  # results not superseded yet

        self._failed: set[Call] = set()  # calls whose result reports a failure
        self._open_calls: dict[Call, tuple[str, ...]] = {}
        """Paths by call without a result: the path that the call names, then the paths it edits."""
        self._superseded: dict[int, tuple[int, ...]] = {}
        """Superseded results by the result that shows a newer version of their file."""
        self._line_bytes = 0  # the size of the lines in the edits

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return self._line_bytes + 300 * len(self._paths)

    def add_call(self, call: Call, arguments: str) -> None:
        """Add the path that a call names, and its edits."""
        if len(arguments) > _MAX_ARGUMENTS:
            return
        fields = _fields(arguments)
        path = _first_text(fields, _PATH_NAMES)
        edits = list(_edits(call, path, fields, arguments))
        if path or edits:
            self._open_calls[call] = path, *dict.fromkeys(edit.path for edit in edits)
        for edit in edits:
            self._edits.append(edit)
            self._edits_by_name[_base_name(edit.path)].append(edit)
            self._line_bytes += sum(80 + len(line) for line in (*edit.removed, *edit.added))

    def add_result(self, result: int, call: Call, text: str) -> None:
        """Add a call's result, and record the earlier results that it supersedes.

        It supersedes the results that show a file which the call read, edited or wrote. If `text`
        reports a failure, the call edited no file, and its result supersedes nothing.
        """
        # The path that the call names, or "", and the paths that it edits.
        path, *edited_paths = self._open_calls.pop(call, ("",))
        has_failed = _FAILURE.match(text) is not None
        if has_failed:
            self._failed.add(call)
        else:
            superseded: list[int] = []
            for file_path in filter(None, dict.fromkeys((path, *edited_paths))):
                superseded += self._remove_from_newest(file_path)
            if superseded:
                self._superseded[result] = tuple(sorted(superseded))
        # The result shows the file that the call names. It is the newest one, unless it failed.
        if path:
            name = _base_name(path)  # a later call may name the same file by another path
            self._paths[result] = path
            self._results.setdefault(name, []).append(result)
            if not has_failed:
                self._newest[name].append(result)

    def _remove_from_newest(self, path: str) -> list[int]:
        """Remove the results of a file from the newest results, and return them."""
        name = _base_name(path)
        newest = self._newest[name]
        superseded = [result for result in newest if is_same_path(path, self._paths[result])]
        self._newest[name] = [result for result in newest if result not in superseded]
        return superseded

    def superseded_by(self, result: int) -> tuple[int, ...]:
        """Return the results that this result supersedes.

        They show a file that the call of this result read, edited or wrote again.
        """
        return self._superseded.get(result, ())

    def edits_after(self, result: int, position: int, stop: int) -> list[FileEdit]:
        """Return the edits of a result's file in the messages after `position`, up to `stop`.

        `position` is the position of the message with the result's call. If the path of the
        result's file is not known, return the edits of all files. Leave out edits that failed.
        """
        path = self._paths.get(result)
        edits = self._edits if path is None else self._edits_by_name.get(_base_name(path), [])
        first = bisect_right(edits, position, key=_position_of)
        last = bisect_right(edits, stop - 1, key=_position_of)
        return [
            edit
            for edit in edits[first:last]
            if edit.call not in self._failed and (path is None or is_same_path(path, edit.path))
        ]

    def first_edits(
        self, results: Iterable[int], positions: Sequence[int], stop: int
    ) -> dict[int, int]:
        """Map each result whose file was edited after its call to the position of the first edit.

        `positions` has the position of the message with each result's call. Results whose path is
        not known are left out, and so are edits in messages from `stop` on.
        """
        edits_by_result = {
            result: self.edits_after(result, positions[result], stop)
            for result in results
            if result in self._paths
        }
        return {result: edits[0].position for result, edits in edits_by_result.items() if edits}

    def has_path(self, result: int) -> bool:
        """Return whether the path of the result's file is known."""
        return result in self._paths

    def newer_results(self, result: int, count: int) -> list[int]:
        """Return the results of the same file after this one, newest first.

        Only the first `count` results of the history are searched.
        """
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
    """Return the position of an edit's message, by which edits are searched."""
    return edit.position


def replaced_ranges(text: str, edits: list[FileEdit], *, is_file: bool) -> list[tuple[int, int]]:
    """Return the character ranges of the lines in an older text that the edits have replaced.

    The edits are in order, and so are the ranges. `is_file` is true if the text is certain to show
    the edited file. Otherwise ignore that an edit wrote a whole file, because the text may show
    lines of other files.
    """
    removed: set[str] = set()  # lines that an edit removed and that no later edit added again
    current_lines: frozenset[str] | None = None  # the file's lines, once an edit wrote all of it
    # Apply the edits one after the other.
    for edit in edits:
        if edit.is_whole and is_file:  # all earlier lines are replaced, unless `added` has them
            current_lines, removed = edit.added, set()
        removed |= edit.removed
        removed -= edit.added
        if current_lines is not None:
            current_lines = (current_lines - edit.removed) | edit.added
    if not removed and current_lines is None:
        return []
    long_removed = [line for line in removed if len(line) >= _MIN_PARTIAL_LINE]

    def is_replaced(line: str, content: str) -> bool:
        """Return whether edits replaced `line`. `content` is the line without its number."""
        if line in removed or content in removed:
            return True
        # A tool may show a line with more than a number around it, so a removed line may be a part
        # of `line`. A short removed line, such as a bracket, would be a part of too many lines.
        if any(removed_line in line for removed_line in long_removed):
            return True
        if current_lines is None or not content:
            return False
        return line not in current_lines and content not in current_lines

    return _line_ranges(text, is_replaced)


def repeated_ranges(text: str, newer_texts: Iterable[str]) -> list[tuple[int, int]]:
    """Return the character ranges of the text's lines that are also in one of the newer texts."""
    newer_lines = {_content(line) for newer in newer_texts for line in newer.splitlines()}
    return _line_ranges(text, lambda _, content: content in newer_lines)


def _line_ranges(text: str, is_wanted: Callable[[str, str], bool]) -> list[tuple[int, int]]:
    """Return the character ranges of the lines for which `is_wanted` returns true, in order.

    Its first argument is a line without white space around it. The second one is this line without
    the line number that a tool may have written at its beginning.
    """
    ranges: list[tuple[int, int]] = []
    start = 0
    for line in text.splitlines(keepends=True):
        if is_wanted(line.strip(), _content(line)):
            ranges.append((start, start + len(line)))
        start += len(line)
    return ranges


def _content(line: str) -> str:
    """Return a line without its line number and without the white space around it."""
    line_number = _LINE_NUMBER.match(line)
    return line[line_number.end() :].strip() if line_number else line.strip()


def is_same_path(path: str, other: str) -> bool:
    """Return whether two paths name the same file. One of them may be relative."""
    path, other = path.removeprefix("./"), other.removeprefix("./")
    return path == other or path.endswith(f"/{other}") or other.endswith(f"/{path}")


def _base_name(path: str) -> str:
    """Return the part of a path after its last slash."""
    return path.rpartition("/")[2]


def _fields(arguments: str) -> Mapping[str, Any]:
    """Return the arguments by name, or an empty mapping if `arguments` is no JSON object."""
    if not arguments.lstrip().startswith("{"):
        return {}
    try:
        fields = _DECODER.decode(arguments)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _first_text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Return the value of the first of these fields that is a text, or "" if none is."""
    for name in names:
        if isinstance(value := fields.get(name), str):
            return value
    return ""


def _edits(call: Call, path: str, fields: Mapping[str, Any], arguments: str) -> Iterator[FileEdit]:
    """Yield the edits of a call: patches, replaced texts, and a file that is written in full.

    `path` is the file that the call names, or empty. `fields` are the arguments by name. If
    `arguments` is no JSON object, `fields` is empty, and `arguments` may be a patch.
    """
    # Any argument may be a patch, except a text that the call writes into a file.
    for text in _texts_outside_files(fields) if fields else [arguments]:
        if _PATCH_START.search(text):
            yield from _patch_edits(call, path, text)
    if not path or fields.get("command") in _READING_COMMANDS:
        return

    # A call may replace one text, which is in its own arguments, and several in a list `edits`.
    edits = fields.get("edits")
    replacements = [fields, *(edits if isinstance(edits, list) else ())]
    for replacement in replacements:
        if isinstance(replacement, Mapping) and (old := _first_text(replacement, _OLD_TEXT_NAMES)):
            old_lines = _lines(old)
            new_lines = _lines(_first_text(replacement, _NEW_TEXT_NAMES))
            yield FileEdit(call, path, removed=old_lines - new_lines, added=new_lines)

    # A call that replaces no text may write the whole file, also an empty one.
    if not _first_text(fields, _OLD_TEXT_NAMES):
        file_texts = (fields.get(name) for name in _FILE_TEXT_NAMES)
        file_text = next((text for text in file_texts if isinstance(text, str)), None)
        if file_text is not None:
            yield FileEdit(call, path, frozenset(), _lines(file_text), is_whole=True)


def _texts_outside_files(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts in a call's arguments, without texts that are the contents of a file.

    A patch inside a file's contents is only text: the call does not apply it.
    """
    return _texts({name: value for name, value in fields.items() if name not in _TEXTS_IN_FILES})


def _texts(value: object) -> Iterator[str]:
    """Yield all texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, Mapping)):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def _patch_edits(call: Call, path: str, patch: str) -> Iterator[FileEdit]:
    """Yield one edit for each file in a patch.

    A line with a file's name says which file the next lines change. Lines before the first such
    line change the file `path`.
    """
    # Collect the removed and added lines by the file's path. `path` is the current file.
    removed: defaultdict[str, set[str]] = defaultdict(set)
    added: defaultdict[str, set[str]] = defaultdict(set)
    for line in patch.splitlines():
        if match := _PATCH_FILE.match(line):
            path = match[1].strip()
        elif line.startswith(("--- ", "*** ", "@@")) or not path:
            continue
        elif line.startswith(("-", "+")) and (content := line[1:].strip()):
            lines = removed if line[0] == "-" else added
            lines[path].add(content)
    for name in dict.fromkeys((*removed, *added)):
        # A line that the patch also adds, for example at another position, still exists afterwards,
        # so it does not count as removed.
        added_lines = frozenset(added[name])
        removed_lines = frozenset(removed[name]) - added_lines
        yield FileEdit(call, name, removed=removed_lines, added=added_lines)


def _lines(text: str) -> frozenset[str]:
    """Return the lines of a text that are not blank, without white space around them."""
    return frozenset(content for line in text.splitlines() if (content := line.strip()))

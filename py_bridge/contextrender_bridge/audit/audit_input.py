"""The input of an audit: runs, the usage of their calls, and the files that could not be read.

A model call may be recorded several times: agents copy calls into forks, archives and new stores.
Usage is therefore collected with keys, and `merge_copies` counts calls with a common key once.
Long because the copies of calls are found here, too.
"""

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from contextrender_bridge.audit.opening import json_values, lines_in, open_store
from contextrender_bridge.audit.run_reader import RecordedRun
from contextrender_bridge.base.model_table import add_rates, split_rates
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json
from contextrender_bridge.printing import count_of

LINE_PROBLEMS = ("damaged line", "unknown line")
CALLS_WITHOUT_USAGE = "calls without usage"
MAX_NAMED_FILES = 8
"""The number of unreadable files that a report names."""


@dataclass
class UsageRecord:
    """A record of one model call's usage. `usage` is None if the file's counts cannot be read.

    Records with a common key are of the same call.
    """

    run: RecordedRun
    keys: tuple[str, ...]
    usage: Usage | None
    time: float = 0.0
    resumed: bool = False


@dataclass
class AuditInput:
    """All runs, with counts of the files and lines read, and of damaged and unknown lines.

    `unreadable` names each file that could not be read to its end, with the reason.
    """

    runs: list[RecordedRun] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    _records: list[UsageRecord] = field(default_factory=list)
    _runs_with_usage: set[int] = field(default_factory=set)
    """The `id()` of each run with a readable usage."""

    def files(self, folder: Path, *patterns: str) -> Iterator[Path]:
        """Yield each file below a folder whose name matches one of the patterns, as `*.jsonl`.

        Links are followed, but no file is yielded twice. Record folders that cannot be read.
        """
        visited: set[str] = set()

        def is_new(path: Path) -> bool:
            """Return True once for each file or folder, even if several links lead to it."""
            real_path = os.path.realpath(path)
            if real_path in visited:
                return False
            visited.add(real_path)
            return True

        for parent, folders, names in os.walk(folder, followlinks=True, onerror=self._walk_error):
            # `os.walk` visits the folders that remain in this list.
            folders[:] = sorted(name for name in folders if is_new(Path(parent, name)))
            for name in sorted(names):
                is_session = any(fnmatchcase(name, pattern) for pattern in patterns)
                if is_session and is_new(Path(parent, name)):
                    yield Path(parent, name)

    def _walk_error(self, error: OSError) -> None:
        """Record a folder as unreadable. A folder that does not exist is ignored."""
        if not isinstance(error, FileNotFoundError):
            self.cannot_read(Path(error.filename), error)

    def cannot_read(self, path: Path, reason: object) -> None:
        """Record that a file cannot be read to its end, with the reason."""
        reason_text = reason.strerror if isinstance(reason, OSError) else reason
        self.counts["unreadable files"] += 1
        self.unreadable.append(f"{path} ({reason_text})")

    @property
    def sentences(self) -> list[str]:
        """Sentences for the user on what could not be read, or an empty list.

        They are about unreadable files, ignored lines and calls without usage.
        """
        sentences = []
        if self.unreadable:
            names = self.unreadable[:MAX_NAMED_FILES]
            if (unnamed_count := len(self.unreadable) - MAX_NAMED_FILES) > 0:
                names.append(f"and {unnamed_count:,} more")
            sentences.append(f"Could not be read to the end: {'; '.join(names)}.")
        problems = [
            count_of(count, noun) for noun in LINE_PROBLEMS if (count := self.counts[f"{noun}s"])
        ]
        if problems:
            sentences.append(
                f"Ignored {', '.join(problems)} of {count_of(self.counts['lines'], 'line')} read."
            )
        if count := self.counts[CALLS_WITHOUT_USAGE]:
            sentences.append(f"Calls without readable usage, whose cost is unknown: {count:,}.")
        return sentences

    def rows(self, path: Path, query: str) -> Iterator[sqlite3.Row]:
        """Yield the rows that a query selects in another program's SQLite store.

        The store is opened read-only. A damaged store is read as far as possible, and recorded as
        unreadable.
        """
        try:
            with closing(open_store(path)) as store:
                store.row_factory = sqlite3.Row
                store.text_factory = lambda text: text.decode("utf-8", "replace")
                yield from store.execute(query)
        except sqlite3.Error as error:
            self.cannot_read(path, error)

    def tables(self, path: Path) -> set[str]:
        """Return the names of a SQLite store's tables and views."""
        query = "select name from sqlite_master where type in ('table', 'view')"
        return {str(row[0]) for row in self.rows(path, query)}

    def lines(self, path: Path) -> Iterator[Json]:
        """Yield the JSON objects in the lines of a plain or compressed file, and count the file.

        Record the file as unreadable if it cannot be read to its end.
        """
        self.counts["files"] += 1
        try:
            for line in lines_in(path):
                # Skip empty lines. They may have zero bytes or a byte order mark.
                if line.strip(b"\0 \t\r\n\xef\xbb\xbf"):
                    yield from self.parsed(line)
        except Exception as error:  # decompressors raise errors of their own
            self.cannot_read(path, error if isinstance(error, OSError) else "damaged archive")

    def parsed(self, text: bytes | str) -> Iterator[Json]:
        """Yield the JSON objects in a line, and count the line.

        Each other value, or damaged text, counts as a damaged line. Invalid UTF-8 is replaced.
        """
        self.counts["lines"] += 1
        for value in json_values(text):
            if isinstance(value, dict):
                yield value
            else:
                self.counts["damaged lines"] += 1

    def count_unknown(self) -> None:
        """Count a line whose type the reader does not support."""
        self.counts["unknown lines"] += 1

    def add_usage(
        self,
        run: RecordedRun,
        keys: str | tuple[str, ...],
        usage: Usage | None,
        time: float = 0.0,
        *,
        resumed: bool = False,
    ) -> None:
        """Record the usage of a run's call. `usage` is None if the file's counts cannot be read.

        Records that share one of their `keys` are of the same call, and `merge_copies` counts it
        once. Empty keys are ignored. `time` is in Unix seconds, 0 if unknown. `resumed` means that
        the agent resumed the session just before the call.
        """
        call_keys = tuple(filter(None, (keys,) if isinstance(keys, str) else keys))
        if usage is not None:
            # Add the call's rates, such as the higher one for a long prompt, to the model's name,
            # because prices are found by this name (`base.model_table`).
            usage = replace(usage, model=add_rates(usage.model, usage.prompt))
            self._runs_with_usage.add(id(run))
        self._records.append(UsageRecord(run, call_keys, usage, time, resumed))

    def add_run(self, run: RecordedRun) -> None:
        """Add a run if it has an answer or recorded usage."""
        if run.calls or id(run) in self._runs_with_usage:
            self.runs.append(run)

    def merge_copies(self) -> "AuditInput":
        """Assign each call's usage to one run, remove runs that are copies, and return this input.

        Call this once, after all usage and all runs have been added.
        """
        originals = _original_records(self._records)
        without_usage = [record for record in originals if record.usage is None]
        self.counts[CALLS_WITHOUT_USAGE] = len(without_usage)

        # A run that resumes another run begins with copies of that run's calls. So a call that
        # follows a copy is the first one after the resume.
        original_ids = {id(record) for record in originals}
        runs_after_copy: set[int] = set()
        for record in self._records:
            if id(record) in original_ids:
                _assign_usage(record, is_first_after_copy=id(record.run) in runs_after_copy)
                runs_after_copy.discard(id(record.run))
            else:
                runs_after_copy.add(id(record.run))
        self._records.clear()
        self.runs = _without_copies(self.runs)
        return self


def _original_records(records: list[UsageRecord]) -> list[UsageRecord]:
    """Return one record of each call: the record with the most tokens, or the first of several."""
    call_by_key = _calls_by_key(records)
    originals: dict[str, UsageRecord] = {}
    for record in records:
        call = call_by_key[record.keys[0]]  # any of the record's keys leads to the same call
        original = originals.setdefault(call, record)
        if _total_tokens(record.usage) > _total_tokens(original.usage):
            originals[call] = record
    return list(originals.values())


def _calls_by_key(records: list[UsageRecord]) -> dict[str, str]:
    """Map each key to a name of its call, which is the same name for all keys of the call.

    Keys are of the same call if they are in one record, or if other records connect them. A record
    without keys first gets a new key.
    """
    # Each call is a tree of keys (union-find), and its name is the key at the root.
    parents: dict[str, str] = {}

    def call_of(key: str) -> str:
        """Return the root of the key's tree. A new key is its own root."""
        while parents.setdefault(key, key) != key:
            key = parents[key]
        return key

    for number, record in enumerate(records):
        record.keys = record.keys or (f"call {number}",)
        for key in record.keys:
            # Join the tree of this key and the tree of the record's first key.
            parents[call_of(key)] = call_of(record.keys[0])
    return {key: call_of(key) for key in parents}


def _assign_usage(record: UsageRecord, *, is_first_after_copy: bool) -> None:
    """Add a record's usage to its run, with the call's time, and mark it if it follows a resume.

    `is_first_after_copy` means that the call before it in the run is a copy from another run.
    """
    if record.usage is None:
        return
    run, number = record.run, len(record.run.usage)
    if is_first_after_copy or record.resumed:
        run.resumed.add(number)
    if record.time:
        run.billed_at[number] = record.time
    run.usage.append(record.usage)
    run.model = run.model or split_rates(record.usage.model)[0]  # the name without its rates


def _without_copies(runs: list[RecordedRun]) -> list[RecordedRun]:
    """Return the runs without those that are only copies.

    A run is a copy if all its calls were assigned to other runs, so that it has no usage, and
    another run with its id has more messages.
    """
    longest_runs: dict[tuple[str, str], RecordedRun] = {}
    for run in runs:
        longest = longest_runs.setdefault((run.source, run.id), run)
        if len(run.messages) > len(longest.messages):
            longest_runs[run.source, run.id] = run
    return [run for run in runs if run.usage or longest_runs[run.source, run.id] is run]


def _total_tokens(usage: Usage | None) -> int:
    """Return the tokens of a call's prompt and answer; -1 if its usage cannot be read."""
    return -1 if usage is None else usage.prompt + usage.output

"""What the readers find on this machine: runs, their bills, and what could not be read.

A model call may be recorded several times: agents copy calls into forks, archives and new stores.
Bills are therefore collected with keys, and `settle` counts calls with a common key once.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from contextrender_bridge.audit.opening import json_values, lines_in, open_store
from contextrender_bridge.audit.run_reader import Recorded
from contextrender_bridge.base.model_table import rated
from contextrender_bridge.base.rates import split_rates
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json

NAMED = 8
"""Files that a sentence names at most."""


@dataclass
class Bill:
    """The usage of one model call as one record has it. Records with a common key are one call."""

    run: Recorded
    keys: tuple[str, ...]
    usage: Usage
    time: float = 0.0
    resumed: bool = False


@dataclass
class AuditInput:
    """All runs, and counts of what was read: files, lines, damaged and unknown ones.

    `unreadable` names each file that could not be read to its end, with the reason.
    """

    runs: list[Recorded] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    _bills: list[Bill] = field(default_factory=list)
    _billed: set[int] = field(default_factory=set)

    def files(self, folder: Path, *, is_session: Callable[[str], bool]) -> Iterator[Path]:
        """Yield the session files below a folder, also behind links, each once."""
        seen: set[str] = set()

        def is_new(path: Path) -> bool:
            before = len(seen)
            seen.add(os.path.realpath(path))
            return len(seen) > before

        for place, folders, names in os.walk(folder, followlinks=True, onerror=self._walk_error):
            folders[:] = sorted(name for name in folders if is_new(Path(place, name)))
            for name in sorted(names):
                if is_session(name) and is_new(Path(place, name)):
                    yield Path(place, name)

    def _walk_error(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            self.cannot_read(Path(error.filename), error)

    def cannot_read(self, path: Path, reason: object) -> None:
        """Name a file that cannot be read to its end."""
        told = reason.strerror if isinstance(reason, OSError) else reason
        self.counts["unreadable files"] += 1
        self.unreadable.append(f"{path} ({told})")

    @property
    def sentences(self) -> list[str]:
        """Sentences that name what could not be read."""
        named = self.unreadable[:NAMED]
        more = len(self.unreadable) - len(named)
        told = "; ".join([*named, *([f"and {more:,} more"] if more else [])])
        return [f"Not read, or not to the end: {told}."] if named else []

    def rows(self, path: Path, query: str) -> Iterator[sqlite3.Row]:
        """Yield the rows of a program's SQLite store, which is opened for reading alone.

        A store that is damaged is read as far as possible, and named.
        """
        try:
            with closing(open_store(path)) as store:
                store.row_factory = sqlite3.Row
                store.text_factory = lambda text: text.decode("utf-8", "replace")
                yield from store.execute(query)
        except sqlite3.Error as error:
            self.cannot_read(path, error)

    def tables(self, path: Path) -> set[str]:
        """Return the names of a store's tables."""
        query = "select name from sqlite_master where type in ('table', 'view')"
        return {str(row[0]) for row in self.rows(path, query)}

    def lines(self, path: Path) -> Iterator[Json]:
        """Yield the JSON objects of a file's lines, also of a compressed one."""
        self.counts["files"] += 1
        try:
            for line in lines_in(path):
                if line.strip(b"\0 \t\r\n\xef\xbb\xbf"):
                    yield from self.parsed(line)
        except Exception as error:  # a decompressor's own errors among them
            self.cannot_read(path, error if isinstance(error, OSError) else "damaged archive")

    def parsed(self, text: bytes | str) -> Iterator[Json]:
        """Yield the JSON objects that a text is. A byte that is no UTF-8 is replaced."""
        self.counts["lines"] += 1
        for value in json_values(text):
            if isinstance(value, dict):
                yield value
            else:
                self.counts["damaged lines"] += 1

    def unknown(self) -> None:
        """Count a line of a kind that the reader does not know."""
        self.counts["unknown lines"] += 1

    def bill(
        self,
        run: Recorded,
        keys: str | tuple[str, ...],
        usage: Usage | None,
        time: float = 0.0,
        *,
        resumed: bool = False,
    ) -> None:
        """Note a call's usage. `resumed` says that the session was taken up again before it."""
        if usage is not None:
            usage = replace(usage, model=rated(usage.model, usage.prompt))
            found = tuple(filter(None, (keys,) if isinstance(keys, str) else keys))
            self._billed.add(id(run))
            self._bills.append(Bill(run, found, usage, time, resumed))

    def keep(self, run: Recorded) -> None:
        """Keep a run, if a model was called in it."""
        if run.calls or id(run) in self._billed:
            self.runs.append(run)

    def settle(self) -> AuditInput:
        """Give each call's usage to one run, and drop runs that are copies of others."""
        first: dict[str, str] = {}

        def root(key: str) -> str:
            while first.setdefault(key, key) != key:
                key = first[key]
            return key

        for number, bill in enumerate(self._bills):
            bill.keys = bill.keys or (f"call {number}",)
            for key in bill.keys[1:]:
                first[root(key)] = root(bill.keys[0])
        best: dict[str, Bill] = {}
        for bill in self._bills:
            other = best.get(key := root(bill.keys[0]))
            if other is None or _tokens(bill.usage) > _tokens(other.usage):
                best[key] = bill
        after_copy: set[int] = set()
        for bill in self._bills:
            if best.get(root(bill.keys[0])) is bill:
                _add(bill, is_resumed=id(bill.run) in after_copy)
                after_copy.discard(id(bill.run))
            else:
                after_copy.add(id(bill.run))
        self._bills.clear()
        self.runs = _without_copies(self.runs)
        return self


def _add(bill: Bill, *, is_resumed: bool) -> None:
    run, number = bill.run, len(bill.run.usage)
    if is_resumed or bill.resumed:
        run.resumed.add(number)
    if bill.time:
        run.billed_at[number] = bill.time
    run.usage.append(bill.usage)
    run.model = run.model or split_rates(bill.usage.model)[0]


def _without_copies(runs: list[Recorded]) -> list[Recorded]:
    """Return the runs, without a second copy of a session that has nothing of its own."""
    longest: dict[tuple[str, str], Recorded] = {}
    for run in runs:
        key = run.source, run.id
        if key not in longest or len(run.messages) > len(longest[key].messages):
            longest[key] = run
    return [run for run in runs if run.usage or longest[run.source, run.id] is run]


def _tokens(usage: Usage) -> int:
    return usage.prompt + usage.output

"""What the readers find: runs with their usage, and how much could not be read."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import DIALECTS


@dataclass
class Recorded:
    """One history of an agent, as its last model call saw it, and all its calls' usage.

    `messages` are canonical chat messages and `times` the second of each, 0 where it is not
    known. A session that was compacted is several of them with one `task`; each `continues` the one
    before, whose summary it begins with. `billed_at` is the second of each of `usage`, by its
    number, where it is known; before those in `resumed` the session was taken up again.
    """

    id: str
    source: str
    task: str
    model: str = ""
    messages: list[Json] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    continues: str = ""
    billed_at: dict[int, float] = field(default_factory=dict)
    resumed: set[int] = field(default_factory=set)

    def add(self, dialect: str, item: Json, time: float = 0.0) -> None:
        """Appends what one item of a request in that dialect is as messages."""
        field_name = "input" if dialect == "responses" else "messages"
        for message in DIALECTS[dialect].read({field_name: [item]}).messages:
            before = self.messages[-1] if self.messages else {"role": ""}
            # Text and calls of one answer are items there.
            if dialect == "responses" and before["role"] == message["role"] == "assistant":
                _join(before, message)
            else:
                self.messages.append(message)
                self.times.append(time)

    def compacted(self) -> Recorded:
        """The history that goes on from this one's summary."""
        session, _, part = self.id.rpartition("#")
        return Recorded(f"{session}#{int(part) + 1}", self.source, self.task, continues=self.id)

    @property
    def calls(self) -> int:
        """The model's answers."""
        return sum(message["role"] == "assistant" for message in self.messages)

    @property
    def billed(self) -> int:
        """The calls that the usage is of."""
        return sum(used.calls for used in self.usage)


def _join(answer: Json, more: Json) -> None:
    """Puts the rest of an answer to its beginning."""
    texts = [text for text in (answer.get("content"), more.get("content")) if text]
    answer["content"] = "\n\n".join(texts) if texts else None
    if calls := [*answer.get("tool_calls", ()), *more.get("tool_calls", ())]:
        answer["tool_calls"] = calls


@dataclass
class AuditInput:
    """All runs, and counts of what was read: files, lines, damaged and unknown ones."""

    runs: list[Recorded] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seen: set[str] = field(default_factory=set)
    """Ids of billed answers: a fork of a session copies them."""

    @contextmanager
    def store(self, path: Path) -> Iterator[sqlite3.Connection]:
        """A program's SQLite store, for reading; one unreadable, or not to its end, is counted."""
        self.counts["files"] += 1
        try:
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as store:
                yield store
        except sqlite3.Error:
            self.counts["unreadable files"] += 1

    def lines(self, path: Path) -> Iterator[Json]:
        """The JSON objects of a file's lines; others are counted as damaged."""
        self.counts["files"] += 1
        try:
            with path.open("rb") as lines:
                for line in lines:
                    if line.strip():
                        yield from self.parsed(line)
        except OSError:
            self.counts["unreadable files"] += 1

    def parsed(self, text: bytes | str) -> Iterator[Json]:
        """The JSON object that a text is, if it is one."""
        self.counts["lines"] += 1
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            yield value
        else:
            self.counts["damaged lines"] += 1

    def unknown(self) -> None:
        """A line of a kind that the reader does not know."""
        self.counts["unknown lines"] += 1

    def bill(self, run: Recorded, id: str, usage: Usage | None, time: float = 0.0) -> None:
        """A call's usage, once over all files."""
        if usage is None:
            return
        if id and id in self.seen:
            run.resumed.add(len(run.usage))
            return
        self.seen.add(id)
        if time:
            run.billed_at[len(run.usage)] = time
        run.usage.append(usage)
        run.model = run.model or usage.model

    def keep(self, run: Recorded) -> None:
        """A run, if a model was called in it."""
        if run.calls or run.usage:
            self.runs.append(run)


def second_of(stamp: object) -> float:
    """A time stamp as seconds; 0 if it is none."""
    if isinstance(stamp, (int, float)):
        return float(stamp) / (1000 if stamp > 1e11 else 1)
    if not isinstance(stamp, str):
        return 0.0
    try:
        return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> Sequence[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else ()


def whole(value: object) -> int:
    """A count, whatever number it is written as; 0 if it is none."""
    return int(value) if isinstance(value, (int, float)) else 0


def chat(role: object, texts: Iterable[object], calls: Sequence[Json]) -> Json:
    """A chat message of these texts and calls."""
    made: Json = {"role": str(role), "content": "\n".join(map(str, filter(None, texts))) or None}
    return {**made, "tool_calls": calls} if calls else made


def tool_call(id: object, name: object, arguments: object) -> Json:
    """A call as chat messages have it; `arguments` as JSON text or as what that is of."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": str(id), "type": "function", "function": {"name": str(name), "arguments": text}}

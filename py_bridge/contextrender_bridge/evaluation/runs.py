"""Reads recorded agent runs: JSON Lines of `{"id", "source", "model", "messages"}`.

A run may also have "task", "tools" (the schemas sent with every call), "times" of its messages, and
"continues". A run that continues another one begins with a summary: "continues" is the id of the
run that the agent compacted. Long because it has the file's format and the compactions.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from contextrender_bridge.base.errors import CommandError, InvalidRequest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.text.transcript import check_messages

SUFFIXES = (".jsonl", ".jsonl.gz")


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded run. `messages` are OpenAI chat messages as they were recorded.

    `named_task` is the task that the file names. Runs of the same task are not independent. `tools`
    are the schemas sent with every call. `times` has the Unix second of each message, or is empty.
    `continues` is the id of the run whose compaction this run begins with, or empty.
    """

    id: str
    source: str
    model: str
    messages: list[dict[str, Any]]
    named_task: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    continues: str = ""

    @property
    def task(self) -> str:
        """The task that the file names, otherwise a task derived from the id.

        If the id begins with the model's name, the task is the rest of the id. If the id is like
        `file:task:trial`, the task is the last part but one. Otherwise, it is the id.
        """
        if self.named_task:
            return self.named_task
        if self.model and self.id.startswith(f"{self.model}_"):
            return self.id.removeprefix(f"{self.model}_")
        parts = self.id.split(":")
        return parts[-2] if len(parts) > 2 else self.id

    def time(self, position: int) -> float:
        """Return the time of a message in Unix seconds; 0 if the run has no times."""
        return self.times[position] if self.times else 0.0

    def to_json(self) -> Json:
        """Return the fields of the run's line in a file, without empty fields."""
        fields = {name: getattr(self, name) for name in _Line.model_fields if name != "task"}
        fields["task"] = self.named_task
        return {name: value for name, value in fields.items() if value}

    @property
    def invocations(self) -> int:
        """The number of model calls: one for every assistant message."""
        return sum(message["role"] == "assistant" for message in self.messages)


def read_runs(paths: Iterable[Path], limit: int | None = None) -> list[Run]:
    """Return the runs in files and folders, in order, at most `limit` of them.

    Raise CommandError if there are no runs, or if a run is invalid: the message names the run's
    file and line.
    """
    runs: list[Run] = []
    for path in _files(paths):
        for run in _runs_of(path):
            if limit is not None and len(runs) >= limit:
                return runs
            runs.append(run)
    if not runs:
        raise CommandError("there are no runs to replay in the given files.")
    return runs


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield each path that is a file. For a folder, yield its `.jsonl` and `.jsonl.gz` files.

    Raise CommandError if a folder has no such file.
    """
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        files = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
        if not files:
            raise CommandError(f"{path} has no {' or '.join(SUFFIXES)} file.")
        yield from files


def _runs_of(path: Path) -> Iterator[Run]:
    """Yield the runs of a file of JSON Lines, gzipped or not. Empty lines are skipped.

    Raise CommandError at the first invalid line, with its number, or if the file cannot be read.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    yield _run_of_line(line)
                except _InvalidRun as problem:
                    raise CommandError(f"{path}, line {number}: {problem}.") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"{path} cannot be read: {reason}.") from None


class _InvalidRun(Exception):
    """An error with the reason why a line is not a valid run."""


class _Line(BaseModel, strict=True):
    """The fields of a run's line in a file, which are checked when the line is read."""

    id: str = Field(min_length=1)
    messages: list[Any]
    source: str | None = None
    model: str | None = None
    task: str | None = None
    tools: list[dict[str, Any]] | None = None
    times: list[float] | None = None
    continues: str | None = None


def _run_of_line(line: bytes) -> Run:
    """Return the run in a line of a file. Raise `_InvalidRun` if the line is no valid run."""
    fields = _fields_of_line(line)
    times = fields.times or []
    # A run without times has an empty list.
    are_valid = len(times) == len(fields.messages) and sorted(times) == times
    if times and not are_valid:
        raise _InvalidRun("times must have one number per message, in ascending order")
    return Run(
        id=fields.id,
        source=fields.source or "",
        model=fields.model or "",
        messages=fields.messages,
        named_task=fields.task or "",
        tools=fields.tools or [],
        times=times,
        continues=fields.continues or "",
    )


def _fields_of_line(line: bytes) -> _Line:
    """Return the fields of a line, after checking them. Raise `_InvalidRun` with a reason."""
    try:
        fields = _Line.model_validate(json.loads(line))
        check_messages(fields.messages, 0)
    except UnicodeDecodeError:
        raise _InvalidRun("it is not UTF-8") from None
    except ValidationError as error:
        first_error = error.errors()[0]
        words = ["a run:", *map(str, first_error["loc"]), first_error["msg"]]
        raise _InvalidRun(" ".join(words)) from None
    except InvalidRequest as problem:
        raise _InvalidRun(problem.message) from None
    except (ValueError, RecursionError) as error:
        raise _InvalidRun(f"it is not JSON ({error})") from None
    return fields


@dataclass(frozen=True, slots=True)
class RunCompaction:
    """A compaction: the full history before it, the summary, and the messages after it.

    `session` is the id of the session's first run, and `run` that of the run which begins with the
    summary. `replaced` has the messages that the agent
    replaced by the summary. They are fewer than `before` if there was an earlier compaction: its
    summary and the messages since.
    """

    session: str
    run: str
    model: str
    before: list[Json]
    replaced: list[Json]
    summary: list[Json]
    after: list[Json]


def compactions_of(runs: Sequence[Run]) -> list[RunCompaction]:
    """Return the compactions between runs that continue each other (`Run.continues`).

    A compaction that a fork of the session copied is returned once. A compaction without later
    messages is left out.
    """
    runs_by_id = {run.id: run for run in runs}
    full_histories: dict[str, list[Json]] = {}
    session_ids: dict[str, str] = {}
    summary_keys: set[str] = set()
    compactions: list[RunCompaction] = []
    for run in _in_order(runs, runs_by_id):
        before = full_histories.get(run.continues)
        if before is None:  # the run continues none of these runs
            full_histories[run.id], session_ids[run.id] = run.messages, run.id
            continue
        # The full history goes on with the messages after the summary.
        summary_end = _summary_end(run.messages, before)
        summary, after = run.messages[:summary_end], run.messages[summary_end:]
        full_histories[run.id] = before + after
        session = session_ids[run.id] = session_ids[run.continues]
        # An equal summary is a copy in a fork.
        summary_key = repr(summary)
        if after and summary_key not in summary_keys:
            summary_keys.add(summary_key)
            replaced = runs_by_id[run.continues].messages
            compactions.append(
                RunCompaction(session, run.id, run.model, before, replaced, summary, after)
            )
    return compactions


def _in_order(runs: Sequence[Run], runs_by_id: Mapping[str, Run]) -> Iterator[Run]:
    """Yield each run after the run that it continues.

    If runs continue each other in a circle, one of them is yielded before the run it continues.
    """
    visited: set[str] = set()
    for run in runs:
        # Go back from run to run, up to one that was yielded before or continues none.
        newest_first: list[Run] = []
        link: Run | None = run
        while link is not None and link.id not in visited:
            visited.add(link.id)
            newest_first.append(link)
            link = runs_by_id.get(link.continues)
        yield from reversed(newest_first)


def _summary_end(messages: Sequence[Json], before: Sequence[Json]) -> int:
    """Return the position of the first new answer after a compaction.

    The `messages` before it are the summary, and messages that the agent kept: copies of messages
    in `before`, the history before the compaction.
    """
    contents_before = {_content_key(message) for message in before}
    for position, message in enumerate(messages):
        if message["role"] == "assistant" and _content_key(message) not in contents_before:
            return position
    return len(messages)


def _content_key(message: Json) -> str:
    """Return a text that is equal for messages of equal text and calls."""
    return repr((message.get("content"), message.get("tool_calls")))

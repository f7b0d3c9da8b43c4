"""Recorded agent runs: JSON Lines of `{"id", "source", "model", "messages"}`.

A run may have "task", "tools" (schemas sent with every call), "times" of its messages, and
"continues": the id of the run that its agent compacted, and began this one with the summary of.
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
    """One recorded run; `messages` are OpenAI chat messages as they were recorded.

    `task` is what the agent was asked to do: runs of one task are not independent. `tools` are
    the schemas sent with every call, `times` the second at which each message came, if known.
    `continues` names the run whose history the agent compacted before this one.
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
        """The task the file names; else the id without the model's name, or its part before a
        trial's number, as in `file:task:trial`.
        """
        if self.named_task:
            return self.named_task
        if self.model and self.id.startswith(f"{self.model}_"):
            return self.id.removeprefix(f"{self.model}_")
        parts = self.id.split(":")
        return parts[-2] if len(parts) > 2 else self.id

    def time(self, position: int) -> float:
        """The second at which a message came; 0 for all where that is not known."""
        return self.times[position] if self.times else 0.0

    @property
    def invocations(self) -> int:
        """How often the model was called: once for every assistant message."""
        return sum(message["role"] == "assistant" for message in self.messages)


def read_runs(paths: Iterable[Path], limit: int | None = None) -> list[Run]:
    """The runs of files, and of the trace files in folders, in order; at most `limit` of them.

    Raises CommandError naming the file and line of the first one that is not a run.
    """
    runs: list[Run] = []
    for path in _files(paths):
        for run in _runs_of(path):
            if limit is not None and len(runs) >= limit:
                return runs
            runs.append(run)
    if not runs:
        raise CommandError("there are no runs to replay.")
    return runs


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
        if not found:
            raise CommandError(f"{path} has no {' or '.join(SUFFIXES)} file.")
        yield from found


def _runs_of(path: Path) -> Iterator[Run]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    yield _run(line)
                except _NotARun as problem:
                    raise CommandError(f"{path}, line {number}: {problem}.") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(f"cannot read {path}: {reason}.") from None


class _NotARun(Exception):
    """Why a line is not a run."""


class _Line(BaseModel, strict=True):
    id: str = Field(min_length=1)
    messages: list[Any]
    source: str | None = None
    model: str | None = None
    task: str | None = None
    tools: list[dict[str, Any]] | None = None
    times: list[float] | None = None
    continues: str | None = None


def _run(line: bytes) -> Run:
    try:
        told = _Line.model_validate(json.loads(line))
        check_messages(told.messages, 0)
    except UnicodeDecodeError:
        raise _NotARun("it is not UTF-8") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise _NotARun(" ".join(map(str, ["a run:", *first["loc"], first["msg"]]))) from None
    except InvalidRequest as problem:
        raise _NotARun(problem.message) from None
    except (ValueError, RecursionError) as error:
        raise _NotARun(f"it is not JSON ({error})") from None
    times = told.times or []
    if times and (len(times) != len(told.messages) or sorted(times) != times):
        raise _NotARun("times must be one a message, none before the last")
    about = told.source or "", told.model or "", told.messages, told.task or ""
    return Run(told.id, *about, told.tools or [], times, told.continues or "")


@dataclass(frozen=True, slots=True)
class Compaction:
    """A whole history up to a compaction, what the agent went on with, and what it did then."""

    model: str
    before: list[Json]
    summary: list[Json]
    after: list[Json]


def compactions_of(runs: Sequence[Run]) -> list[Compaction]:
    """The compactions between runs that go on after one another (`Run.continues`).

    A fork of a session has copies of those before it: each counts once.
    """
    known = {run.id: run for run in runs}
    wholes: dict[str, list[Json]] = {}
    seen: set[str] = set()
    found: list[Compaction] = []
    for run in _in_order(runs, known):
        before = wholes.get(run.continues)
        if before is None:
            wholes[run.id] = run.messages
            continue
        start = _goes_on_at(run.messages, before)
        summary, after = run.messages[:start], run.messages[start:]
        wholes[run.id] = before + after
        if after and (told := repr(summary)) not in seen:
            seen.add(told)
            found.append(Compaction(run.model, before, summary, after))
    return found


def _in_order(runs: Sequence[Run], known: Mapping[str, Run]) -> Iterator[Run]:
    """Each behind the one that it continues; who continues itself, or a later one, begins anew."""
    told: set[str] = set()
    for run in runs:
        chain: list[Run] = []
        link: Run | None = run
        while link is not None and link.id not in told:
            told.add(link.id)
            chain.append(link)
            link = known.get(link.continues)
        yield from reversed(chain)


def _goes_on_at(messages: Sequence[Json], before: Sequence[Json]) -> int:
    """The first message behind the summary: an answer that is none kept from before."""
    kept = {id(message) for message in before} | {_said(message) for message in before}
    for position, message in enumerate(messages):
        if message["role"] == "assistant" and not {id(message), _said(message)} & kept:
            return position
    return len(messages)


def _said(message: Json) -> str:
    return repr((message.get("content"), message.get("tool_calls")))
